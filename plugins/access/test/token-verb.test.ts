import t from 'tap'
import { cli, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import access from '../index.js'

const record = { id: 'app_1', label: 'phone', authorities: ['read'], created: '2026-01-01T00:00:00.000Z',
  expires: null, lastUsedDay: null, revoked: false }

t.test('svc token create, ls and revoke', async (t) => {
  const admitted = [{ installId: 'barn-install', name: 'barn' }]
  const node = await standIn(t, {
    'POST /v1/tokens': (response) => { sendJson(response, { token: 'svc_app_x', record }) },
    'GET /v1/tokens': (response) => {
      sendJson(response, { tokens: [record, { ...record, id: 'app_2', revoked: true }] })
    },
    'DELETE /v1/tokens/app_1': (response) => {
      sendJson(response, { id: 'app_1', revoked: true, admitted })
    }
  })
  const run = async (...words: string[]): ReturnType<typeof cli> =>
    await cli(['token', ...words, '--url', node.url], { plugins: [access] })
  const made = await run('create', 'phone')
  t.equal(made.out, 'svc_app_x\n', 'stdout is the token and nothing else')
  t.match(made.err, /not shown again/)
  t.same(node.asked.at(-1)?.body, { label: 'phone', authorities: ['read', 'invoke'], expires: null })
  await run('create', 'phone', '--authority', 'read', 'cluster:write', '--expires', '2999-01-01')
  t.same(node.asked.at(-1)?.body,
    { label: 'phone', authorities: ['read', 'cluster:write'], expires: '2999-01-01T00:00:00.000Z' })
  t.same(JSON.parse((await run('create', 'phone', '--json')).out), { token: 'svc_app_x', record })
  t.match(await run('create', 'phone', '--expires', 'soon'),
    { status: 2, err: /--expires soon: expected a duration such as 90d/ })
  t.match((await run('ls')).out, /app_1 +phone +read +2026-01-01 +never +never +active\napp_2 .* revoked/)
  t.equal(JSON.parse((await run('ls', '--json')).out).tokens.length, 2)
  t.match(await run('revoke', 'app_1'),
    { out: 'app_1 is revoked\n', err: /it admitted barn, .*svc members remove barn-install/ })
  t.equal((await run('revoke', 'app_9')).status, 3)
})
