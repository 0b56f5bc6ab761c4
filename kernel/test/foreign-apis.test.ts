/** Tests the kernel's support for foreign APIs: error formats and headers. */
import t from 'tap'
import { definePlugin, type ErrorBody, type RouteDecl } from '../index.js'
import { compileStrict, issuesOf } from '../api/validate.js'
import { errorFormatFinder } from '../http/unmatched.js'
import { startPlugin } from '../testing/index.js'
import { systemClock } from '../api/clock.js'

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

const probe = definePlugin({
  ...base,
  routes: {
    fine: get('/far/fine', { failure: foreign, idHeader: 'request-id' }),
    named: get('/far/fine/:name', { failure: foreign, params: { type: 'object' } }),
    bad: get('/far/bad', { failure: seen })
  }
}, () => {
  const bad = (): never => { throw new Error('inside') }
  return { routes: { fine: () => ({ fine: true }), named: () => ({}), bad } }
})

t.test('ids of requests and words of errors', async (t) => {
  const rig = await startPlugin(t, probe, { clock: systemClock })
  const own = `${await rig.listen()}/far`
  const fine = await fetch(`${own}/fine`)
  t.same(await fine.json(), { fine: true })
  const id = fine.headers.get('x-svc-request-id')
  t.ok(id)
  t.same(['x-request-id', 'request-id'].map((name) => fine.headers.get(name)), [id, id])
  t.equal((await fetch(`${own}/none`)).status, 404)
  const bad = await fetch(`${own}/bad`, { headers: { 'x-as': 'me' } })
  t.same([bad.status, await bad.json()], [500, { as: 'me' }])
  const long = await fetch(`${own}/fine/${'x'.repeat(600)}`)
  t.same([long.status, await long.json()], [414, { oops: 'The URL is too long.' }])
  const query = await fetch(`${own}/fine?x=1`)
  t.same(await query.json(), { oops: 'x is not a known field' })
  t.ok(query.headers.get('request-id'))
  const rebound = await fetch(`${own}/fine`, { headers: { authorization: 'Bearer ' } })
  t.equal(rebound.status, 200, 'the word alone is no credential')
})
