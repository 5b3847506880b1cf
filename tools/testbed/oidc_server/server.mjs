// An OpenID Connect provider (oidc-provider) with the users and keys of settings.json.
// Usage: node server.mjs FOLDER, with the packages in FOLDER/node_modules of this file.

import { readFileSync } from 'node:fs';
import https from 'node:https';
import { Provider } from 'oidc-provider';

const folder = process.argv[2];
const read = (name) => readFileSync(`${folder}/${name}`, 'utf8');
const settings = JSON.parse(read('settings.json'));

const provider = new Provider(settings.issuer, {
  clients: [
    {
      client_id: settings.client,
      client_secret: settings.secret,
      grant_types: ['authorization_code'],
      redirect_uris: [settings.redirect],
    },
  ],
  claims: { openid: ['sub', 'groups'] },
  conformIdTokenClaims: false,
  cookies: { keys: ['only-for-tests'] },
  findAccount: (_, id) => ({
    accountId: id,
    claims: async () => ({ sub: id, groups: settings.users[id] ?? [] }),
  }),
  jwks: { keys: settings.keys },
  pkce: { required: () => false },
});

https
  .createServer({ cert: read('tls.crt'), key: read('tls.key') }, provider.callback())
  .listen(settings.port, '127.0.0.1');
