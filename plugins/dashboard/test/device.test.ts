import t from 'tap'
import { ApiError } from '../page/api-error.js'
import { Bearers, isForGood, refusalOf, signedSession } from '../page/device/bearers.js'
import { browserName, chosenWith, spaced } from '../page/device/words.js'

t.test('a browser names itself by its system', (t) => {
  const mozilla = 'Mozilla/5.0'
  const webkit = 'AppleWebKit/537.36'
  const rows: [agent: string, name: string][] = [
    [`${mozilla} (Linux; Android 10; K) ${webkit} Chrome/156.0 Mobile Safari/537.36`, 'Chrome on Android'],
    [`${mozilla} (iPhone; CPU iPhone OS 17_5 like Mac OS X) ${webkit} Version/17.5 Safari/604.1`,
      'Safari on iPhone'],
    [`${mozilla} (iPad; CPU OS 17_5 like Mac OS X) ${webkit} CriOS/126.0 Safari/604.1`,
      'Chrome on iPad'],
    [`${mozilla} (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Version/17.5 Safari/605`, 'Safari on Mac'],
    [`${mozilla} (Windows NT 10.0; Win64; x64) ${webkit} Chrome/126.0.0.0 Safari/537.36 Edg/126.0.0.0`,
      'Edge on Windows'],
    [`${mozilla} (X11; Linux x86_64; rv:127.0) Gecko/20100101 Firefox/127.0`, 'Firefox on Linux'],
    ['', 'Browser']
  ]
  for (const [agent, name] of rows) t.equal(browserName(agent), name, agent)
  t.end()
})

t.test('what may not be done at all may not be done over a relay', (t) => {
  const choice = { authorities: ['read', 'invoke'], viaRelay: ['read', 'invoke'] }
  t.same(chosenWith({ ...choice, viaRelay: ['read'] }, ['read', 'operator']).viaRelay, ['read'],
    'nothing more over a relay unless it is ticked there')
  t.same(chosenWith(choice, ['read']), { authorities: ['read'], viaRelay: ['read'] })
  t.equal(spaced('012345'), '012 345')
  t.end()
})

/** Bearers with a manual clock and fake nodes, whose tokens are `ORIGIN 1`, `ORIGIN 2`, …. */
function rig (expiresInSeconds = 900) {
  const asked: string[] = []
  const timers = new Map<() => void, number>()
  const open: (() => void)[] = []
  const refused: { by: Error | null, waits: boolean } = { by: null, waits: false }
  const bearers = new Bearers({
    session: async (origin) => {
      asked.push(origin)
      const count = asked.filter((one) => one === origin).length
      if (refused.waits) await new Promise<void>((resolve) => { open.push(resolve) })
      if (refused.by !== null) throw refused.by
      return { token: `${origin} ${count}`, expiresInSeconds }
    },
    later: (ms, act) => {
      timers.set(act, ms)
      return () => { timers.delete(act) }
    }
  })
  const fire = async (): Promise<void> => {
    for (const act of [...timers.keys()]) {
      timers.delete(act)
      act()
    }
    await new Promise(setImmediate)
  }
  const held = (): object => Object.fromEntries(bearers.held.value)
  return { asked, bearers, fire, held, open, refused, timers }
}

t.test('a bearer is renewed two minutes before its end', async (t) => {
  const { asked, bearers, fire, held, timers } = rig()
  t.equal(await bearers.fresh('one'), 'one 1')
  t.same([...timers.values()], [780_000])
  await fire()
  t.equal(bearers.at('one'), 'one 2')
  t.same([...timers.values()], [780_000], 'and again')
  t.equal(await bearers.fresh('two'), 'two 1')
  t.same([...timers.values()], [780_000], 'of the node that is gone to')
  await fire()
  t.same(asked, ['one', 'one', 'two', 'two'])
  t.same(held(), { one: 'one 2', two: 'two 2' })
  bearers.end()
  t.same([held(), timers.size], [{}, 0])

  const short = rig(60)
  await short.bearers.fresh('one')
  t.same([...short.timers.values()], [1000], 'one that ends soon is not asked for in a loop')
})

t.test('a renewal that fails leaves the bearer until a node refuses it', async (t) => {
  const { asked, bearers, fire, refused, timers } = rig()
  await bearers.fresh('one')
  refused.by = new ApiError('one does not answer.')
  await fire()
  t.same([bearers.at('one'), asked.length, timers.size], ['one 1', 2, 0])
  await t.rejects(bearers.after('one', 'one 1'), { message: 'one does not answer.' })
  refused.by = null
  t.equal(await bearers.after('one', 'one 1'), 'one 4', 'the node is there again')
  t.equal(timers.size, 1)
})

t.test('requests that are refused at once get one fresh bearer', async (t) => {
  const { asked, bearers, open, refused } = rig()
  await bearers.fresh('one')
  refused.waits = true
  const all = ['one 1', 'one 1', null].map(async (had) => await bearers.after('one', had))
  t.equal(await all[2], 'one 1', 'one that went without it takes the one that is held')
  const other = bearers.after('two', null)
  for (const resolve of open) resolve()
  t.same(await Promise.all([...all, other]), ['one 2', 'one 2', 'one 1', 'two 1'])
  t.equal(await bearers.after('one', 'one 1'), 'one 2', 'one that was late finds it')
  t.same(asked, ['one', 'one', 'two'])
})

t.test('what comes for a device of before counts no more', async (t) => {
  const { bearers, held, open, refused, timers } = rig()
  refused.waits = true
  const late = bearers.fresh('one')
  bearers.end()
  open[0]!()
  await t.rejects(late, { message: 'This browser is another device now.' })
  t.same([held(), timers.size], [{}, 0])
})

t.test('a grant that has expired ends the renewal', async (t) => {
  const { asked, bearers, fire, held, refused, timers } = rig()
  await bearers.fresh('one')
  const expired = new ApiError('The grant of this device has expired.',
    { status: 401, reason: 'device_ended', details: { why: 'expired' } })
  refused.by = expired
  await fire()
  t.same([asked.length, timers.size], [2, 0])
  t.ok(isForGood(expired))
  bearers.drop()
  t.same([bearers.at('one'), held()], [null, {}])
  await t.rejects(bearers.fresh('one'), expired, 'a node may still be asked: it says the same')
})

t.test('a node that has started anew is signed for once more', async (t) => {
  const unsure = new ApiError('', { status: 401, reason: 'signature_refused', details: { nodeId: 'n2' } })
  const corrected: unknown[] = []
  const sign = async (answers: (Error | string)[], believed: boolean): Promise<string[]> => {
    const sent: string[] = []
    const signer = {
      authorization: async (method: string, target: string, body: Uint8Array | undefined) =>
        await Promise.resolve(`${method} ${target} ${Buffer.from(body!).toString()} ${sent.length + 1}`),
      correct: async (details: unknown) => {
        corrected.push(details)
        return await Promise.resolve(believed)
      }
    }
    const { token } = await signedSession(signer, async (authorization) => {
      sent.push(authorization)
      const answer = answers.shift()!
      if (typeof answer !== 'string') throw answer
      return await Promise.resolve({ token: answer, expiresInSeconds: 900 })
    })
    return [token, ...sent]
  }
  const line = 'POST /v1/devices/session {}'
  t.same(await sign(['a'], true), ['a', `${line} 1`])
  t.same(await sign([unsure, 'b'], true), ['b', `${line} 1`, `${line} 2`])
  t.same(corrected, [{ nodeId: 'n2' }])
  await t.rejects(sign([unsure, 'c'], false), unsure, 'what no node of the cluster has signed')
  await t.rejects(sign([unsure, unsure, 'd'], true), unsure, 'once')
  const broken = new TypeError('cut off')
  await t.rejects(sign([broken, 'e'], true), broken)
})

t.test('a refusal says what it means for the device', (t) => {
  const rows: [reason: string, why: string | undefined, forGood: boolean, says: RegExp][] = [
    ['device_ended', 'revoked', true, /^said/], ['device_ended', 'expired', true, /^said/],
    ['device_ended', 'node_removed', true, /^said/], ['device_ended', 'unheard', false, /^said/],
    ['unauthenticated', undefined, false, /^one does not know this device/],
    ['signature_refused', undefined, false, /^one does not show the key of a node/],
    ['overloaded', undefined, false, /^said/]
  ]
  for (const [reason, why, forGood, says] of rows) {
    const error = new ApiError('said by the node', { status: 401, reason, details: { why } })
    t.equal(isForGood(error), forGood, `${reason} ${why}`)
    t.match(refusalOf(error, 'one'), { message: says, status: 401, reason }, `${reason} ${why}`)
  }
  t.match(refusalOf(new DOMException('timeout'), 'one'), { message: 'one does not answer.', status: 0 })
  t.end()
})
