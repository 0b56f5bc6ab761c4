import t, { type Test } from 'tap'
import { MAX_READING_BYTES } from '../../../kernel/api/cluster.js'
import { Gossip, type GossipBody } from '../gossip.js'
import { manualClock, type ManualClock } from '../../../kernel/testing/manual-clock.js'
import type { MachineStats } from '../../../kernel/api/vitals.js'
import type { Logger } from '../../../kernel/api/plugin.js'

const reading = (free: number): MachineStats => ({
  memory: {
    ramTotal: { inBytes: 100 },
    ramAvailable: { inBytes: free },
    swapTotal: { inBytes: 0 },
    swapAvailable: { inBytes: 0 }
  },
  system: { gpuUsage: null, temp: null, sysPower: null, pcpuUsage: 0.5, accelerator: null, accelerators: [] },
  disk: { total: { inBytes: 9 }, available: { inBytes: 4 } },
  network: { interfaces: [] }
})

interface Rig {
  gossip: Gossip
  clock: ManualClock
  bodies: GossipBody[]
  warned: string[]
  samples: () => number
  set (next: { peers?: number, fail?: boolean, sample?: () => Promise<MachineStats> }): void
}

function rig (enabled = true): Rig {
  const clock = manualClock()
  const state = { peers: 1, fail: false, sample: () => Promise.resolve(reading(samples)) }
  const bodies: GossipBody[] = []
  const warned: string[] = []
  const ignore = (): void => {}
  const warn: Logger['warn'] = (fields, message) => {
    warned.push(`${message} ${String(fields['why'] ?? '')}`.trim())
  }
  const log = { debug: ignore, info: ignore, warn, error: ignore, fatal: ignore }
  let samples = 0
  const gossip = new Gossip({
    clock, log, enabled,
    sample: () => { samples++; return state.sample() },
    publish (body) {
      if (state.fail) throw new Error('no link takes it')
      bodies.push(body)
      return { peers: state.peers, bytes: state.peers * 100 }
    }
  })
  t.teardown(() => { gossip.close() })
  return {
    gossip, clock, bodies, warned, samples: () => samples,
    set (next) { Object.assign(state, next) }
  }
}

/** Checks that the counters account for every reading. */
function addsUp (t: Test, gossip: Gossip): void {
  const c = gossip.counters()
  t.equal(c.readingsOffered,
    c.readingsCoalesced + c.readingsDropped + c.readingsPublished + c.pendingReadings, 'the counters add up')
  t.equal(c.queueDepth, c.pendingReadings)
}

t.test('a sample goes out at the start and every 2 seconds', async (t) => {
  const { gossip, clock, bodies } = rig()
  gossip.start()
  gossip.start()
  await clock.advance(0)
  t.same(bodies, [{ v: 1, readings: reading(1) }])
  await clock.advance(1999)
  t.equal(bodies.length, 1)
  await clock.advance(1)
  t.same(bodies[1], { v: 1, readings: reading(2) })
  t.match(gossip.counters(), {
    enabled: true, transport: 'websocket', admissionCapacity: 64, pendingReadings: 0, maxQueueDepth: 4,
    readingsOffered: 8, readingsPublished: 8, bytesPublished: 200, lastSuccessfulPublishAgeSeconds: 0
  })
  await clock.advance(1500)
  t.equal(gossip.counters().lastSuccessfulPublishAgeSeconds, 1.5)
  gossip.close()
  await clock.advance(10_000)
  t.equal(bodies.length, 2, 'nothing after the end')
  addsUp(t, gossip)
})

t.test('offers wait for the period, the newest of a key wins', async (t) => {
  const { gossip, clock, bodies } = rig()
  gossip.start()
  await clock.advance(0)
  for (const n of [1, 2, 3]) gossip.offer('download/x', { n })
  t.match(gossip.counters(), { pendingReadings: 1, readingsCoalesced: 2 })
  await clock.advance(2000)
  t.same(bodies[1]?.readings['download/x'], { n: 3 })
  addsUp(t, gossip)
})

t.test('over 64 waiting readings the oldest go', (t) => {
  const { gossip } = rig()
  for (let i = 0; i < 70; i++) gossip.offer(`k${i}`, i)
  t.match(gossip.counters(), { pendingReadings: 64, maxQueueDepth: 64, readingsDropped: 6 })
  addsUp(t, gossip)
  t.end()
})

t.test('large readings are spread over several bodies', async (t) => {
  const { gossip, clock, bodies } = rig()
  for (let i = 0; i < 12; i++) gossip.offer(`k${i}`, 'x'.repeat(60_000))
  gossip.start()
  for (let i = 0; i < 3; i++) await clock.advance(2000)
  const large = (body: GossipBody): number =>
    Object.keys(body.readings).filter((key) => key.startsWith('k')).length
  t.same(bodies.map(large).slice(0, 2), [8, 4])
  t.equal(gossip.counters().pendingReadings, 0)
  addsUp(t, gossip)
})

t.test('what cannot be a reading', (t) => {
  const { gossip, warned } = rig()
  t.throws(() => { gossip.offer('no key', 1) }, /"no key" is not a valid key of a reading/)
  for (let i = 0; i < 3; i++) gossip.offer('big', 'x'.repeat(70_000))
  t.match(gossip.counters(), { readingsOffered: 3, readingsDropped: 3, pendingReadings: 0 })
  t.match(warned, [/reading "big" is not plain JSON of at most 65536 bytes and was dropped/])
  t.equal(warned.length, 1)
  addsUp(t, gossip)
  t.end()
})

t.test('without a peer the newest readings wait for one', async (t) => {
  const { gossip, clock, bodies, set } = rig()
  set({ peers: 0 })
  gossip.offer('once', 'said')
  gossip.start()
  await clock.advance(0)
  await clock.advance(4000)
  t.match(gossip.counters(), {
    noPeerPublishes: 3, readingsPublished: 0, bytesPublished: 0, pendingReadings: 5,
    lastSuccessfulPublishAgeSeconds: null
  })
  addsUp(t, gossip)
  set({ peers: 2 })
  await clock.advance(2000)
  t.same(bodies.at(-1)?.readings, { once: 'said', ...reading(4) })
  t.match(gossip.counters(), { noPeerPublishes: 3, pendingReadings: 0, bytesPublished: 200 })
  addsUp(t, gossip)
})

t.test('a publish that fails is counted, logged once and made good', async (t) => {
  const { gossip, clock, bodies, warned, set } = rig()
  set({ fail: true })
  gossip.start()
  await clock.advance(0)
  await clock.advance(4000)
  t.match(gossip.counters(),
    { publishFailures: 3, pendingReadings: 4, lastSuccessfulPublishAgeSeconds: null })
  t.same(warned, ['readings could not be published; they are sent with the next ones'])
  set({ fail: false })
  await clock.advance(2000)
  t.same(bodies, [{ v: 1, readings: reading(4) }])
  addsUp(t, gossip)
})

t.test('a sample that fails or hangs does not hold back other readings', async (t) => {
  const { gossip, clock, bodies, warned, samples, set } = rig()
  set({ sample: () => Promise.reject(new Error('no sensor')) })
  gossip.offer('a', 1)
  gossip.start()
  await clock.advance(2000)
  t.same(bodies, [{ v: 1, readings: { a: 1 } }])
  t.same(warned, ['the readings of this machine are unavailable'])
  set({ sample: () => new Promise(() => {}) })
  await clock.advance(2000)
  const asked = samples()
  gossip.offer('b', 2)
  await clock.advance(4000)
  t.same(bodies[1], { v: 1, readings: { b: 2 } })
  t.equal(samples(), asked, 'a hanging sample is not asked again')
  addsUp(t, gossip)
})

t.test('a sample that comes after the end goes nowhere', async (t) => {
  const { gossip, clock, bodies, set } = rig()
  let answer = (_: MachineStats): void => {}
  set({ sample: () => new Promise((resolve) => { answer = resolve }) })
  gossip.start()
  gossip.close()
  answer(reading(1))
  await clock.advance(2000)
  t.same(bodies, [])
  t.equal(gossip.counters().readingsOffered, 0)
})

t.test('disabled: nothing is sampled or published, peers are still heard', async (t) => {
  const { gossip, clock, bodies, samples } = rig(false)
  gossip.start()
  gossip.offer('a', 1)
  await clock.advance(10_000)
  t.same([bodies.length, samples()], [0, 0])
  t.match(gossip.counters(), {
    enabled: false, readingsOffered: 0, pendingReadings: 0, noPeerPublishes: 0,
    lastSuccessfulPublishAgeSeconds: null
  })
  gossip.receive('peer', { v: 1, readings: { memory: 5 } })
  t.match(gossip.latest('peer', 'memory'), { value: 5 })
})

t.test('readings of peers: the newest, with the time it came', async (t) => {
  const { gossip, clock } = rig()
  gossip.receive('a', { v: 1, readings: { memory: 1, disk: 2 } })
  await clock.advance(3000)
  gossip.receive('a', { v: 1, readings: { memory: 3 } })
  gossip.receive('b', { v: 1, readings: { memory: null } })
  t.same(gossip.latest('a', 'memory'), { value: 3, atMs: 3000 })
  t.same(gossip.latest('a', 'disk'), { value: 2, atMs: 0 })
  t.same(gossip.latest('b', 'memory'), { value: null, atMs: 3000 })
  t.equal(gossip.latest('b', 'disk'), undefined)
  t.equal(gossip.latest('c', 'memory'), undefined)
  gossip.forget('a')
  t.equal(gossip.latest('a', 'memory'), undefined)
})

t.test('a peer that invents keys without end takes bounded memory', (t) => {
  const { gossip } = rig()
  for (let i = 0; i < 1000; i++) gossip.receive('a', { v: 1, readings: { [`k${i}`]: i, memory: i } })
  const kept = Array.from({ length: 1000 }, (_, i) => gossip.latest('a', `k${i}`))
  t.equal(kept.filter((r) => r !== undefined).length, 255)
  t.match(gossip.latest('a', 'memory'), { value: 999 }, 'what is heard often stays')
  t.end()
})

t.test('what waits keeps its place and takes the newest value; a full queue drops its oldest', async (t) => {
  const { gossip, clock, bodies } = rig()
  for (const [i, key] of ['a', 'b', 'c', 'a'].entries()) gossip.offer(key, i)
  for (let i = 0; i < 62; i++) gossip.offer(`k${i}`, i)
  gossip.offer('c', 'newest')
  gossip.start()
  await clock.advance(0)
  const keys = Object.keys(bodies[0]!.readings)
  t.same(keys.slice(0, 2), ['k2', 'k3'], 'the four of the sample took the place of b, c, k0 and k1')
  t.match(gossip.counters(), { readingsCoalesced: 2, readingsDropped: 5, maxQueueDepth: 64 })
  addsUp(t, gossip)
})

t.test('what is sent: plain JSON that is not too large', (t) => {
  const check = (value: unknown, fine: boolean, title: string): void => {
    const { gossip } = rig()
    gossip.offer('key', value)
    t.equal(gossip.counters().readingsDropped, fine ? 0 : 1, title)
  }
  check({ a: [1, 'b', true, null] }, true, 'an object')
  check(new Date(0), false, 'a date')
  check('x'.repeat(MAX_READING_BYTES - 2), true, 'the largest')
  check('x'.repeat(MAX_READING_BYTES - 1), false, 'one byte too many')
  check('ü'.repeat(MAX_READING_BYTES / 2), false, 'bytes count, not characters')
  t.end()
})

t.test('bodies from peers', (t) => {
  const many = (n: number): object => Object.fromEntries(Array.from({ length: n }, (_, i) => [`k${i}`, i]))
  const check = (body: unknown, expected: RegExp | null): void => {
    const { gossip } = rig()
    const wrong = gossip.receive('a', body)
    if (expected === null) {
      t.equal(wrong, null)
      return
    }
    t.match(wrong, expected)
    t.equal(gossip.latest('a', 'fine'), undefined, 'none of it counts')
  }
  check({ v: 1, readings: {} }, null)
  check({ v: 1, readings: { memory: null, 'a/b': [1] } }, null)
  check({ v: 1, readings: many(64), more: 'is left alone' }, null)
  for (const body of [undefined, null, 7, 'text', [], () => 1]) check(body, /the value must be an object/)
  check({ readings: {} }, /v is missing/)
  check({ v: 2, readings: {} }, /v must be/)
  check({ v: 1 }, /readings is missing/)
  check({ v: 1, readings: [] }, /readings must be an object/)
  check({ v: 1, readings: many(65) }, /readings must NOT have more than 64 properties/)
  check({ v: 1, readings: JSON.parse('{"__proto__":{"polluted":1}}') as unknown }, /the key "__proto__"/)
  check({ v: 1, readings: { fine: 1, 'no key': 1 } }, /the key "no key"/)
  check({ v: 1, readings: { a: 'x'.repeat(MAX_READING_BYTES) } }, /"a" is not plain JSON of at most 65536/)
  check({ v: 1, readings: { a: new Uint8Array(1) } }, /"a" is not plain JSON/)
  t.end()
})
