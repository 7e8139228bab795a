// A provider of OpenID Connect: node provider.mjs PACKAGES PORT REDIRECT_URI. Tests say over /test/people who there is, in which groups,
// over /test/as/NAME who sits at the browser (who logs in without a form), and over /test/ended/NAME whom it logs out.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [packages, port, redirect] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(createRequire(`${packages}/`).resolve("oidc-provider")));
let people = {};
let present = "";
let sent;

const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{
    client_id: "weir", client_secret: "a-secret-of-tests", redirect_uris: [redirect], grant_types: ["authorization_code", "refresh_token"],
    backchannel_logout_uri: `${new URL(redirect).origin}/login/through/npm/ended`,
  }],
  cookies: { keys: ["of tests"] },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email"] },
  fetch: async (url, options) => { // of log-outs: it refuses addresses of its own machine, so tests carry them
    sent = options.body;
    return new Response();
  },
  features: { devInteractions: { enabled: false }, backchannelLogout: { enabled: true } },
  conformIdTokenClaims: false, // ID tokens have the groups too, as Entra's do
  pkce: { required: () => true },
  issueRefreshToken: async () => true,
  findAccount: (ctx, id) => people[id] && {
    accountId: id,
    claims: () => ({ sub: id, preferred_username: id, email: `${id}@example.com`, groups: people[id] }),
  },
  interactions: { url: (ctx, interaction) => `/test/interaction/${interaction.uid}` },
  loadExistingGrant: async (ctx) => {
    const grant = new provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
    grant.addOIDCScope("openid profile email");
    await grant.save();
    return grant;
  },
});

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
}

provider.use(async (ctx, next) => {
  const [, test, what, name] = ctx.path.split("/");
  if (test !== "test") return next();
  if (what === "people") people = await body(ctx.req);
  if (what === "as") present = name;
  if (what === "interaction") {
    ctx.respond = false;
    const answer = present in people ? { login: { accountId: present } } : { error: "access_denied" };
    return provider.interactionFinished(ctx.req, ctx.res, answer);
  }
  ctx.body = "ok";
  if (what === "ended") {
    await (await provider.Client.find("weir")).backchannelLogout(name);
    ctx.body = sent.get("logout_token");
  }
});
provider.listen(Number(port), "127.0.0.1");
