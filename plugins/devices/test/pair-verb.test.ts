import t, { type Test } from 'tap'
import { cli, sendJson, standIn, type Asked, type Ran } from '../../../kernel/test/cli-helpers.js'
import devices from '../index.js'

const tablet = { attempt: 'a', deviceId: 'dev-a', name: 'tablet', digits: '123456' }

/** Runs `svc pair --digits-stdin` at a stub node whose pairing stays open. */
async function pair (t: Test, stdin: string, device: typeof tablet | null): Promise<Ran & { last: Asked[] }> {
  const view = { open: true, ends: '2026-01-01T00:05:00.000Z', triesLeft: 3, device }
  const node = await standIn(t, {
    'GET /v1/devices/pairing': (response) => { sendJson(response, view) },
    'POST /v1/devices/pairing': (response) => { sendJson(response, view) },
    'POST /v1/devices/pairing/refuse': (response) => { sendJson(response, {}) },
    'DELETE /v1/devices/pairing': (response) => { sendJson(response, {}) }
  })
  const signal = AbortSignal.timeout(10_000)
  const ran = await cli(['pair', '--digits-stdin', '--url', node.url], { stdin, signal, plugins: [devices] })
  return { ...ran, last: node.asked.slice(-2) }
}

t.test('the no of the operator ends the pairing', async (t) => {
  const { status, err, last } = await pair(t, '654321\n', tablet)
  t.equal(status, 1)
  t.match(err, /svc: refused, and the pairing is closed; run `svc pair` again/)
  t.match(last, [{ url: '/v1/devices/pairing/refuse', body: { attempt: 'a' } },
    { method: 'DELETE', url: '/v1/devices/pairing' }])
})

t.test('stdin that ends without digits ends the pairing, before a device comes too', async (t) => {
  for (const [stdin, device] of [['', null], ['', tablet], ['\n', null]] as const) {
    const { status, err, last } = await pair(t, stdin, device)
    t.equal(status, 2)
    t.match(err, /svc: stdin ended without the six digits/)
    t.match(last.at(-1), { method: 'DELETE', url: '/v1/devices/pairing' })
  }
})
