// Says on the page why a passkey did not work.
document.addEventListener("allauth.error", (event) => {
  event.preventDefault();
  const { name, message } = event.detail.exception;
  const problem = document.getElementById("passkey-problem");
  problem.textContent = name === "NotAllowedError" ? "✕ No passkey was used: there is none here for this address, or it took too long." : `✕ ${message}`;
  problem.hidden = false;
});
