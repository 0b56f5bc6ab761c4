import t from 'tap'
import { cli, sendJson, standIn } from '../../../kernel/test/cli-helpers.js'
import access from '../index.js'

const record = { id: 'app_1', label: 'phone', authorities: ['read'], models: null, node: null,
  created: '2026-01-01T00:00:00.000Z',
  expires: null, lastUsedDay: null, revoked: false }

t.test('svc token create, ls and revoke', async (t) => {
  const admitted = [{ installId: 'barn-install', name: 'barn' }]
  const node = await standIn(t, {
    'POST /v1/tokens': (response) => { sendJson(response, { token: 'svc_app_x', record }) },
    'GET /v1/tokens': (response) => {
      const other = { ...record, id: 'app_2', node: 'attic', models: ['a', 'b'], revoked: true }
      sendJson(response, { tokens: [record, other] })
    },
    'POST /v1/tokens/key_1/rotate': (response) => {
      sendJson(response, { token: 'svc_app_y', record, replaces: 'key_1', ends: '2026-01-02T00:00:00.000Z' })
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
  await run('create', 'phone', '--model', 'a', 'b', '--local')
  t.match(node.asked.at(-1)?.body, { models: ['a', 'b'], local: true })
  t.match(await run('rotate', 'key_1'), { out: 'svc_app_y\n', err: /replaces key_1, which ends 2026-01-02/ })
  t.same(node.asked.at(-1)?.body, { overlap_seconds: 86_400 })
  await run('rotate', 'key_1', '--overlap', '0')
  t.same(node.asked.at(-1)?.body, { overlap_seconds: 0 })
  t.match(await run('rotate', 'key_1', '--overlap', 'soon'), { status: 2, err: /--overlap soon: expected/ })
  t.same(JSON.parse((await run('create', 'phone', '--json')).out), { token: 'svc_app_x', record })
  t.match(await run('create', 'phone', '--expires', 'soon'),
    { status: 2, err: /--expires soon: expected a duration such as 90d/ })
  t.match((await run('ls')).out,
    /app_1 +phone +cluster +read +all +none +2026-01-01 +never +never +active\napp_2 .*attic .*a,b .*revoked/)
  t.equal(JSON.parse((await run('ls', '--json')).out).tokens.length, 2)
  t.match(await run('revoke', 'app_1'),
    { out: 'app_1 is revoked\n', err: /it admitted barn, .*svc members remove barn-install/ })
  t.equal((await run('revoke', 'app_9')).status, 3)
})
