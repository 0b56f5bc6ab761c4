/** Tests each guard separately: routes between nodes, bad tokens, forwarded callers, credential schemes. */
import t from 'tap'
import { authorize, createAccess } from '../http/access.js'
import { CallerSchemes } from '../http/callers.js'
import { readCaller } from '../http/forwarded.js'
import { manualClock } from '../testing/index.js'
import type { Caller } from '../api/plugin.js'
import type { Arrival, CallerScheme } from '../api/callers.js'

const caller: Caller = { id: 'who', mode: 'direct', authorities: new Set(['read']) }

/** Reason of the error that `ask` throws; null if it does not throw. */
function reasonOf (ask: () => unknown): string | null {
  try {
    ask()
    return null
  } catch (error) {
    return (error as { reason: string }).reason
  }
}

t.test('a member opens the routes between nodes alone', async (t) => {
  const cases: [member: string | undefined, members: boolean | undefined, opens: boolean][] = [
    [undefined, undefined, true], [undefined, true, true], ['install-x', true, true],
    ['install-x', undefined, false], ['install-x', false, false]
  ]
  for (const [member, members, opens] of cases) {
    const ask = (): void => {
      authorize(caller, { authority: 'read', ...members === undefined ? {} : { members } }, member)
    }
    const what = `${member ?? 'a client'}, members: ${members}`
    t.equal(reasonOf(ask), opens ? null : 'missing_grant', what)
    t.equal(reasonOf(() => { authorize(caller, { authority: 'operator', members: true }, member) }),
      'missing_grant', 'and needs the authority as well')
  }
})

t.test('too many bad tokens of one address', async (t) => {
  const clock = manualClock()
  const access = createAccess({
    clock, local: new Set(['read']), schemes: new CallerSchemes(), tokens: { check: () => undefined }
  })
  const reason = (remoteAddress: string): string | null => reasonOf(() =>
    access({ remoteAddress, authorization: 'Bearer svc_wrong', indirect: false, device: null } as Arrival))
  const asked = Array.from({ length: 11 }, () => reason('10.0.0.7'))
  t.same(asked, [...Array<string>(10).fill('unauthenticated'), 'overloaded'])
  t.equal(reason('10.0.0.8'), 'unauthenticated', 'another address')
  await clock.advance(60_000)
  t.equal(reason('10.0.0.7'), 'unauthenticated', 'a minute later')
})

t.test('who asked, as a member says it', async (t) => {
  const good = { id: 'who', mode: 'paired', authorities: ['read'] }
  t.match(readCaller(JSON.stringify(good)), { id: 'who', mode: 'paired', authorities: new Set(['read']) })
  const bad: unknown[] = [
    { ...good, mode: 'local' }, { ...good, mode: undefined }, { ...good, id: '' }, { ...good, id: 1 },
    { ...good, authorities: 'read' }, { ...good, authorities: [1] }, [], null, 'who'
  ]
  for (const value of bad) {
    t.equal(reasonOf(() => readCaller(JSON.stringify(value))), 'unauthenticated', JSON.stringify(value))
  }
  for (const header of [undefined, '', '{', [JSON.stringify(good)]]) {
    t.equal(reasonOf(() => readCaller(header)), 'unauthenticated', String(header))
  }
})

t.test('two plugins cannot check one kind of credential', async (t) => {
  const scheme = (word: string, bearer: string): CallerScheme =>
    ({ word, bearer, check: () => undefined, stands: () => undefined, makerOf: () => undefined })
  const schemes = new CallerSchemes()
  const end = schemes.register(scheme('SVC1', 'svc_dev_'))
  for (const [word, bearer] of [['SVC1', 'x_'], ['svc1', 'x_'], ['OTHER', 'svc_dev_']] as const) {
    t.throws(() => schemes.register(scheme(word, bearer)), /checked by another plugin/, `${word} ${bearer}`)
  }
  schemes.register(scheme('OTHER', 'x_'))
  end()
  t.doesNotThrow(() => schemes.register(scheme('svc1', 'svc_dev_')), 'once the first is gone')
})
