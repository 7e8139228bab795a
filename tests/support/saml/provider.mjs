// A provider of SAML 2.0: node provider.mjs PACKAGES PORT FOLDER, where FOLDER has its certificate and key. Tests say over /test/people who
// there is, in which groups, over /test/as/NAME who sits at the browser (who logs in without a form), and over /test/wrong what is different
// about its next answers. With weir.pem in FOLDER it takes signed requests alone.
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";

const [packages, port, folder] = process.argv.slice(2);
const samlp = createRequire(`${packages}/`)("samlp");
const issuer = `http://127.0.0.1:${port}`;
let people = {};
let present = "";
let wrong = {};

class Person {
  constructor(name) { this.name = name; }
  getClaims() { return { "urn:oid:2.5.4.42": this.name, groups: people[this.name], ...wrong.claims }; }
  getNameIdentifier() { return { nameIdentifier: this.name, nameIdentifierFormat: wrong.format ?? "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" }; }
}
Person.prototype.metadata = [];
const profileMapper = (name) => new Person(name);
profileMapper.prototype = Person.prototype;

const own = {
  issuer, profileMapper, cert: readFileSync(`${folder}/authority.pem`), key: readFileSync(`${folder}/key.pem`), lifetimeInSeconds: 300,
  signatureAlgorithm: "rsa-sha256", digestAlgorithm: "sha256", redirectEndpointPath: "/sso", postEndpointPath: "/sso",
};

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return JSON.parse(Buffer.concat(parts).toString());
}

function logIn(request, response) {
  const signed = `${folder}/weir.pem`;
  const options = existsSync(signed) ? { signingCert: readFileSync(signed).toString() } : {};
  samlp.parseRequest(request, { ...options, relayState: request.query.RelayState }, (error, said) => {
    if (error || (options.signingCert && !request.query.Signature)) return response.writeHead(403).end(`${error}`);
    const to = said.assertionConsumerServiceURL;
    const about = { audience: said.issuer, recipient: to, destination: to, inResponseTo: said.id, sessionIndex: said.id };
    samlp.getSamlResponse({ ...own, ...about, ...wrong }, present, (failed, answer) => {
      const text = Buffer.from(answer).toString("base64");
      response.setHeader("Content-Type", "text/html");
      response.end(`<form method="post" action="${to}"><input name="SAMLResponse" value="${text}"></form><script>document.forms[0].submit()</script>`);
    });
  });
}

// One that nobody began here is of nothing in `wrong.begins`: the application and its address.
function answerUnasked(request, response) {
  const { audience, to } = wrong.begins;
  samlp.getSamlResponse({ ...own, audience, recipient: to, destination: to, ...wrong }, present, (failed, answer) => {
    response.end(`<input name="SAMLResponse" value="${Buffer.from(answer).toString("base64")}">`);
  });
}

// The browser is sent to `wrong.logOut` with a signed log-out of who is present.
function logOut(request, response) {
  const participant = { nameId: present, nameIdFormat: "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent", sessionIndex: "1",
    serviceProviderId: "weir", serviceProviderLogoutURL: wrong.logOut, binding: "urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" };
  Object.assign(request, { session: {}, body: {} });
  response.redirect = (to) => response.writeHead(302, { Location: to }).end();
  const sessionParticipants = { hasElements: () => true, getFirst: (found) => found(null, participant) };
  samlp.logout({ ...own, ...wrong, deflate: true, sessionParticipants })(request, response, (error) => response.writeHead(500).end(`${error}`));
}

createServer(async (request, response) => {
  const url = new URL(request.url, issuer);
  const [, place, what, name] = url.pathname.split("/");
  request.query = Object.fromEntries(url.searchParams);
  request.originalUrl = request.url;
  request.protocol = "http";
  response.set = response.setHeader;
  response.send = response.end;
  if (place === "metadata") return samlp.metadata(own)(request, response);
  if (place === "sso") return logIn(request, response);
  if (place === "begin") return answerUnasked(request, response);
  if (place === "log-out") return logOut(request, response);
  if (what === "people") people = await body(request);
  if (what === "wrong") wrong = await body(request);
  if (what === "as") present = name;
  response.end("ok");
}).listen(Number(port), "127.0.0.1");
