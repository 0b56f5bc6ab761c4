/** Tests the kernel's support for foreign APIs: error formats, headers and additional ports. */
import { createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import t from 'tap'
import { definePlugin, ListenerService, type ErrorBody, type RouteDecl } from '../index.js'
import { compileStrict, issuesOf } from '../api/validate.js'
import { errorFormatFinder } from '../http/unmatched.js'
import { startPlugin } from '../testing/index.js'
import { systemClock } from '../api/clock.js'
import type { ExtraListener } from '../api/services.js'

const base = { name: 'probe', version: '1.0.0', kernel: '^1.0.0', summary: 'A probe.' } as const
const foreign = ({ error }: ErrorBody): object => ({ oops: error.message })
const seen = (_: ErrorBody, headers: Readonly<Record<string, unknown>>): object => ({ as: headers['x-as'] })
const get = (url: string, more: Partial<RouteDecl> = {}): RouteDecl =>
  ({ method: 'GET', url, summary: 's', authority: 'read', ...more })

t.test('unknown paths are told of as by the routes beside them', (t) => {
  const telling = errorFormatFinder([
    get('/v1/models'), get('/v1/messages', { failure: foreign, idHeader: 'request-id' }),
    get('/other/api/tags', { failure: seen }), get('/other/', { failure: seen })
  ])
  const rows: [string, RouteDecl['failure']][] = [
    ['/v1/messages/x', foreign], ['/v1/messages', foreign], ['/v1/x', foreign], ['/x', undefined],
    ['/other/x/y', seen], ['/other/api/x', seen], ['/othe', undefined], ['/', undefined]
  ]
  for (const [path, failure] of rows) t.equal(telling(path).failure, failure, path)
  t.equal(telling('/v1/messages/x').idHeader, 'request-id')
  t.end()
})

t.test('refused fields are errors in their own words', (t) => {
  const validate = compileStrict({ type: 'object', properties: {
    a: { 'x-refused': { why: 'is not served', unless: ['no', []] } }, b: { 'x-ignored': 'harmless' }
  } })
  for (const a of [null, 'no', []]) t.ok(validate({ a, b: 7 }))
  t.notOk(validate({ a: 'yes' }))
  t.same(issuesOf(validate.errors), [{ path: 'a', message: 'is not served' }])
  t.end()
})

const probe = (
  port: number, opened: (one: ExtraListener) => void, failed: (code: string) => void
) => definePlugin({
  ...base,
  consumes: { listeners: ListenerService },
  routes: {
    fine: get('/far/fine', { failure: foreign, idHeader: 'request-id' }),
    named: get('/far/fine/:name', { failure: foreign, params: { type: 'object' } }),
    bad: get('/far/bad', { failure: seen })
  }
}, (ctx) => {
  const listening = ctx.deps.listeners.open({
    port, rewrite: (path) => `/far${path}`, failed: ({ code = '' }) => { failed(code) }
  })
  opened(listening)
  ctx.effect('port', () => { listening.close() })
  const bad = (): never => { throw new Error('inside') }
  return { routes: { fine: () => ({ fine: true }), named: () => ({}), bad } }
})

/** Polls `look` and resolves once it returns a value. */
async function until<T> (look: () => T | null | undefined): Promise<T> {
  for (;;) {
    const found = look()
    if (found != null) return found
    await new Promise((resolve) => { setImmediate(resolve) })
  }
}

t.test('a port of its own, ids of requests and words of errors', async (t) => {
  let listening: ExtraListener | undefined
  const plugin = probe(0, (one) => { listening = one }, t.fail)
  const rig = await startPlugin(t, plugin, { clock: systemClock })
  const url = await rig.listen()
  const own = `http://127.0.0.1:${await until(() => listening?.port())}`
  const fine = await fetch(`${own}/fine`)
  t.same(await fine.json(), { fine: true })
  const id = fine.headers.get('x-svc-request-id')
  t.ok(id)
  t.same(['x-request-id', 'request-id'].map((name) => fine.headers.get(name)), [id, id])
  if (Object.values(networkInterfaces()).flat().some((one) => one?.address === '::1')) {
    const six = own.replace('127.0.0.1', '[::1]')
    while (await fetch(`${six}/fine`).then(() => false, () => true)) await new Promise(setImmediate)
    t.equal((await fetch(`${six}/fine`)).status, 421, 'it listens there too; the kit serves 127.0.0.1 only')
  }
  t.same(await (await fetch(`${url}/far/fine`)).json(), { fine: true }, 'the other port is as it was')
  const missing = await fetch(`${own}/none`)
  t.equal(missing.status, 404)
  const bad = await fetch(`${own}/bad`, { headers: { 'x-as': 'me' } })
  t.same([bad.status, await bad.json()], [500, { as: 'me' }])
  const long = await fetch(`${own}/fine/${'x'.repeat(600)}`)
  t.same([long.status, await long.json()], [414, { oops: 'The URL is too long.' }])
  const query = await fetch(`${own}/fine?x=1`)
  t.same(await query.json(), { oops: 'x is not a known field' })
  t.ok(query.headers.get('request-id'))
  const rebound = await fetch(`${own}/fine`, { headers: { authorization: 'Bearer ' } })
  t.equal(rebound.status, 200, 'the word alone is no credential')
  await rig.stop()
  await t.rejects(fetch(`${own}/fine`), 'it ends with the plugin')
})

t.test('a port that is taken', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.teardown(() => { taken.close() })
  await new Promise((resolve) => { taken.once('listening', resolve) })
  let code: string | undefined
  const plugin = probe((taken.address() as { port: number }).port, () => {}, (given) => { code = given })
  const rig = await startPlugin(t, plugin, { clock: systemClock })
  await rig.listen()
  t.equal(await until(() => code), 'EADDRINUSE')
})
