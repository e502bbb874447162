// Checks the documents of the fake authorization server against the schemas of the official SDK.
const auth = require("@modelcontextprotocol/sdk/shared/auth.js");

async function main(base) {
  const read = async (path, options) => (await fetch(base + path, options)).json();
  auth.OAuthProtectedResourceMetadataSchema.parse(await read("/.well-known/oauth-protected-resource/mcp"));
  auth.OAuthMetadataSchema.parse(await read("/.well-known/oauth-authorization-server"));
  const asked = { redirect_uris: ["http://127.0.0.1:1/"], client_name: "x" };
  const posted = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(asked) };
  auth.OAuthClientInformationFullSchema.parse(await read("/register", posted));
  const state = "s";
  const query = new URLSearchParams({
    redirect_uri: "http://127.0.0.1:1/", state,
    code_challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
  });
  const went = await fetch(`${base}/authorize?${query}`, { redirect: "manual" });
  const code = new URL(went.headers.get("location")).searchParams.get("code");
  const form = new URLSearchParams({
    grant_type: "authorization_code", code, redirect_uri: "http://127.0.0.1:1/", client_id: "client-1",
    code_verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", resource: `${base}/mcp`,
  });
  auth.OAuthTokensSchema.parse(await read("/token", { method: "POST", body: form }));
  console.log("valid");
}

main(process.argv[2]).catch((error) => {
  console.error(error);
  process.exit(1);
});
