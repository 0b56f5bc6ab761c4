import t from 'tap'
import { createGossip } from '../cluster/gossip/gossip.js'
import { manualClock } from '../testing/manual-clock.js'
import type { GossipBody } from '../cluster/gossip/message.js'
import type { Reading, Gossip } from '../cluster/gossip/gossip.js'
import type { Logger } from '../api/plugin.js'
import type { ManualClock } from '../testing/manual-clock.js'
import type { Test } from 'tap'

const reading = (free: number): Reading => ({
  memory: {
    ramTotal: { inBytes: 100 },
    ramAvailable: { inBytes: free },
    swapTotal: { inBytes: 0 },
    swapAvailable: { inBytes: 0 }
  },
  system: { gpuUsage: null, temp: null, sysPower: null, pcpuUsage: 0.5, accelerator: null },
  disk: { total: { inBytes: 9 }, available: { inBytes: 4 } },
  network: { interfaces: [] }
})

interface Rig {
  telemetry: Gossip
  clock: ManualClock
  bodies: GossipBody[]
  warned: string[]
  samples: () => number
  set (next: { peers?: number, fail?: boolean, sample?: () => Promise<Reading> }): void
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
  const telemetry = createGossip({
    clock, log, enabled,
    sample: () => { samples++; return state.sample() },
    publish (body) {
      if (state.fail) throw new Error('no link takes it')
      bodies.push(body)
      return { peers: state.peers, bytes: state.peers * 100 }
    }
  })
  t.teardown(() => { telemetry.close() })
  return {
    telemetry, clock, bodies, warned, samples: () => samples,
    set (next) { Object.assign(state, next) }
  }
}

/** At any time no reading is lost from the account. */
function addsUp (t: Test, telemetry: Gossip): void {
  const c = telemetry.counters()
  t.equal(c.readingsOffered,
    c.readingsCoalesced + c.readingsDropped + c.readingsPublished + c.pendingReadings, 'the counters add up')
  t.equal(c.queueDepth, c.pendingReadings)
}

t.test('a sample goes out at the start and every 2 seconds', async (t) => {
  const { telemetry, clock, bodies } = rig()
  telemetry.start()
  telemetry.start()
  await clock.advance(0)
  t.same(bodies, [{ v: 1, readings: reading(1) }])
  await clock.advance(1999)
  t.equal(bodies.length, 1)
  await clock.advance(1)
  t.same(bodies[1], { v: 1, readings: reading(2) })
  t.match(telemetry.counters(), {
    enabled: true, transport: 'websocket', admissionCapacity: 64, pendingReadings: 0, maxQueueDepth: 4,
    readingsOffered: 8, readingsPublished: 8, bytesPublished: 200, lastSuccessfulPublishAgeSeconds: 0
  })
  await clock.advance(1500)
  t.equal(telemetry.counters().lastSuccessfulPublishAgeSeconds, 1.5)
  telemetry.close()
  await clock.advance(10_000)
  t.equal(bodies.length, 2, 'nothing after the end')
  addsUp(t, telemetry)
})

t.test('offers wait for the period, the newest of a key wins', async (t) => {
  const { telemetry, clock, bodies } = rig()
  telemetry.start()
  await clock.advance(0)
  for (const n of [1, 2, 3]) telemetry.offer('download/x', { n })
  t.match(telemetry.counters(), { pendingReadings: 1, readingsCoalesced: 2 })
  await clock.advance(2000)
  t.same(bodies[1]?.readings['download/x'], { n: 3 })
  addsUp(t, telemetry)
})

t.test('over 64 waiting readings the oldest go', (t) => {
  const { telemetry } = rig()
  for (let i = 0; i < 70; i++) telemetry.offer(`k${i}`, i)
  t.match(telemetry.counters(), { pendingReadings: 64, maxQueueDepth: 64, readingsDropped: 6 })
  addsUp(t, telemetry)
  t.end()
})

t.test('large readings are spread over several bodies', async (t) => {
  const { telemetry, clock, bodies } = rig()
  for (let i = 0; i < 12; i++) telemetry.offer(`k${i}`, 'x'.repeat(60_000))
  telemetry.start()
  for (let i = 0; i < 3; i++) await clock.advance(2000)
  const large = (body: GossipBody): number =>
    Object.keys(body.readings).filter((key) => key.startsWith('k')).length
  t.same(bodies.map(large).slice(0, 2), [8, 4])
  t.equal(telemetry.counters().pendingReadings, 0)
  addsUp(t, telemetry)
})

t.test('what cannot be a reading', (t) => {
  const { telemetry, warned } = rig()
  t.throws(() => { telemetry.offer('no key', 1) }, /"no key" is no key of a reading/)
  for (let i = 0; i < 3; i++) telemetry.offer('big', 'x'.repeat(70_000))
  t.match(telemetry.counters(), { readingsOffered: 3, readingsDropped: 3, pendingReadings: 0 })
  t.match(warned, [/reading "big" is no plain JSON of at most 65536 bytes and was dropped/])
  t.equal(warned.length, 1)
  addsUp(t, telemetry)
  t.end()
})

t.test('without a peer the newest readings wait for one', async (t) => {
  const { telemetry, clock, bodies, set } = rig()
  set({ peers: 0 })
  telemetry.offer('once', 'said')
  telemetry.start()
  await clock.advance(0)
  await clock.advance(4000)
  t.match(telemetry.counters(), {
    noPeerPublishes: 3, readingsPublished: 0, bytesPublished: 0, pendingReadings: 5,
    lastSuccessfulPublishAgeSeconds: null
  })
  addsUp(t, telemetry)
  set({ peers: 2 })
  await clock.advance(2000)
  t.same(bodies.at(-1)?.readings, { once: 'said', ...reading(4) })
  t.match(telemetry.counters(), { noPeerPublishes: 3, pendingReadings: 0, bytesPublished: 200 })
  addsUp(t, telemetry)
})

t.test('a publish that fails is counted, logged once and made good', async (t) => {
  const { telemetry, clock, bodies, warned, set } = rig()
  set({ fail: true })
  telemetry.start()
  await clock.advance(0)
  await clock.advance(4000)
  t.match(telemetry.counters(),
    { publishFailures: 3, pendingReadings: 4, lastSuccessfulPublishAgeSeconds: null })
  t.same(warned, ['readings could not be published; they go with the next ones'])
  set({ fail: false })
  await clock.advance(2000)
  t.same(bodies, [{ v: 1, readings: reading(4) }])
  addsUp(t, telemetry)
})

t.test('a sample that fails or hangs does not hold back other readings', async (t) => {
  const { telemetry, clock, bodies, warned, samples, set } = rig()
  set({ sample: () => Promise.reject(new Error('no sensor')) })
  telemetry.offer('a', 1)
  telemetry.start()
  await clock.advance(2000)
  t.same(bodies, [{ v: 1, readings: { a: 1 } }])
  t.same(warned, ['this machine could not be sampled; its readings are missing'])
  set({ sample: () => new Promise(() => {}) })
  await clock.advance(2000)
  const asked = samples()
  telemetry.offer('b', 2)
  await clock.advance(4000)
  t.same(bodies[1], { v: 1, readings: { b: 2 } })
  t.equal(samples(), asked, 'a hanging sample is not asked again')
  addsUp(t, telemetry)
})

t.test('a sample that comes after the end goes nowhere', async (t) => {
  const { telemetry, clock, bodies, set } = rig()
  let answer = (_: Reading): void => {}
  set({ sample: () => new Promise((resolve) => { answer = resolve }) })
  telemetry.start()
  telemetry.close()
  answer(reading(1))
  await clock.advance(2000)
  t.same(bodies, [])
  t.equal(telemetry.counters().readingsOffered, 0)
})

t.test('disabled: nothing is sampled or published, peers are still heard', async (t) => {
  const { telemetry, clock, bodies, samples } = rig(false)
  telemetry.start()
  telemetry.offer('a', 1)
  await clock.advance(10_000)
  t.same([bodies.length, samples()], [0, 0])
  t.match(telemetry.counters(), {
    enabled: false, readingsOffered: 0, pendingReadings: 0, noPeerPublishes: 0,
    lastSuccessfulPublishAgeSeconds: null
  })
  telemetry.receive('peer', { v: 1, readings: { memory: 5 } })
  t.match(telemetry.latest('peer', 'memory'), { value: 5 })
})

t.test('readings of peers: the newest, with the time it came', async (t) => {
  const { telemetry, clock } = rig()
  telemetry.receive('a', { v: 1, readings: { memory: 1, disk: 2 } })
  await clock.advance(3000)
  telemetry.receive('a', { v: 1, readings: { memory: 3 } })
  telemetry.receive('b', { v: 1, readings: { memory: null } })
  t.same(telemetry.latest('a', 'memory'), { value: 3, atMs: 3000 })
  t.same(telemetry.latest('a', 'disk'), { value: 2, atMs: 0 })
  t.same(telemetry.latest('b', 'memory'), { value: null, atMs: 3000 })
  t.equal(telemetry.latest('b', 'disk'), undefined)
  t.equal(telemetry.latest('c', 'memory'), undefined)
  telemetry.forget('a')
  t.equal(telemetry.latest('a', 'memory'), undefined)
})

t.test('nonsense of a peer is counted, ignored as a whole and logged once', (t) => {
  const { telemetry, warned } = rig()
  const bad = [undefined, null, 'x', { v: 9 }, { v: 1, readings: { fine: 1, 'not fine': 2 } }]
  for (const body of bad) telemetry.receive('a', body)
  t.equal(telemetry.refusedBodies, bad.length)
  t.equal(telemetry.latest('a', 'fine'), undefined)
  t.same(warned, ['a peer\'s readings were ignored is no object'])
  telemetry.receive('b', 7)
  t.equal(warned.length, 2, 'each peer once')
  t.end()
})

t.test('a peer that invents keys without end takes bounded memory', (t) => {
  const { telemetry } = rig()
  for (let i = 0; i < 1000; i++) telemetry.receive('a', { v: 1, readings: { [`k${i}`]: i, memory: i } })
  const kept = Array.from({ length: 1000 }, (_, i) => telemetry.latest('a', `k${i}`))
  t.equal(kept.filter((r) => r !== undefined).length, 255)
  t.match(telemetry.latest('a', 'memory'), { value: 999 }, 'what is heard often stays')
  t.end()
})
