import { EventEmitter } from 'node:events'
import * as decoding from 'lib0/decoding'
import t from 'tap'
import { applyUpdate, Doc } from 'yjs'
import { entriesOf, stateOf } from './state-entries.js'
import type { Entry } from '../state/entries.js'
import { createStateSync } from '../state/sync.js'
import { manualClock, type ManualClock } from '../testing/index.js'
import { log } from '../../plugins/cluster/test/links-kit.js'
import type { WebSocket } from 'ws'

type State = Record<string, unknown>

t.test('a state becomes entries, and they become the state', (t) => {
  const hostile = JSON.parse('{"__proto__":{"x":1},"a/b/c":[1],"":0,"constructor":null}') as object
  const state: State = {
    a: null, b: [], c: { x: 1 }, empty: {}, text: 'x', hostile, gone: undefined, d: { no: undefined }
  }
  const entries = entriesOf(state)
  t.strictSame(entries.map(({ key }) => key), ['a', 'b', 'c', 'c/x', 'empty', 'text', 'hostile',
    'hostile/__proto__', 'hostile/a/b/c', 'hostile/', 'hostile/constructor', 'd'])
  t.strictSame(entries.filter(({ key }) => key === 'c' || key === 'empty').map(({ val }) => val), [{}, {}])
  const told = JSON.stringify(state)
  t.equal(JSON.stringify(stateOf(entries)), told)
  t.equal(({} as { x?: number }).x, undefined)
  const [c, x] = entries.filter(({ key }) => key.startsWith('c')) as [Entry, Entry]
  t.strictSame(stateOf([x, c]), { c: { x: 1 } }, 'in any order')
  t.strictSame(stateOf([c, x, { ...x, val: 2 }]), { c: { x: 2 } }, 'the later one counts')
  t.strictSame(stateOf([x]), {}, 'no member without its object')
  t.end()
})

/** An in-memory reader of a replica: its document, and the size in bytes of every update. */
interface Follower { state (): State, keys (): string[], updates: number[], close (): void }

interface Bench { clock: ManualClock, follow (): Promise<Follower>, change (next: State): Promise<void> }

const turn = (): Promise<void> => new Promise((resolve) => { setImmediate(resolve) })

function bench (t: { teardown (fn: () => void): void }, first: State): Bench {
  const clock = manualClock()
  let now = first
  let wake = (): void => {}
  const sync = createStateSync({
    state: () => now, read: async () => {}, readings: new Set(['load']), clock, log,
    changed: (signal) => new Promise((resolve) => {
      wake = resolve
      signal.onabort = () => { resolve() }
    })
  })
  t.teardown(() => { sync.close() })
  return {
    clock,
    async follow () {
      const doc = new Doc()
      const updates: number[] = []
      const socket = Object.assign(new EventEmitter(), {
        OPEN: 1, readyState: 1, bufferedAmount: 0, close: () => {}, ping: () => {},
        send: (bytes: Uint8Array) => {
          if (bytes[0] !== 0) return
          updates.push(bytes.length)
          applyUpdate(doc, decoding.readVarUint8Array(decoding.createDecoder(bytes.subarray(2))))
        }
      })
      const caller = { id: 'a', mode: 'direct', authorities: new Set(['read']) } as const
      sync.serve(socket as unknown as WebSocket, { caller })
      socket.emit('message', Buffer.from([0, 0, 1, 0]), true)
      const entries = doc.getArray<Entry>('entries')
      while (entries.length === 0) await turn()
      return {
        state: () => stateOf(entries), keys: () => entries.map(({ key }) => key), updates,
        close: () => { socket.emit('close') }
      }
    },
    /** Changes the state; resolves when the replica has written it and waits for the next change. */
    async change (next) {
      now = next
      const before = wake
      before()
      while (wake === before) await turn()
    }
  }
}

const NODES = 200
const INSTANCES = 2000

/** A state of realistic shape for a large cluster. */
function large (): State & { instances: Record<string, object>, runners: Record<string, object> } {
  const nodes = Array.from({ length: NODES }, (_, n) => `node-${n}`)
  const each = (of: (id: string) => unknown): State => Object.fromEntries(nodes.map((id) => [id, of(id)]))
  const ids = Array.from({ length: INSTANCES }, (_, n) => `instance-${n}`)
  return {
    sessionId: 's1',
    nodeIdentities: each((id) => ({ friendlyName: id, chipId: 'x'.repeat(60), apiUrl: null })),
    nodeHealth: each(() => ({ level: 'ok', reasons: [] })),
    load: each(() => ({ pcpuUsage: 0.5 })),
    instances: Object.fromEntries(ids.map((id, n) =>
      [id, { modelId: `org/model-${n}`, nodes: [nodes[n % NODES]], shards: 'y'.repeat(300) }])),
    runners: Object.fromEntries(ids.map((id) =>
      [`runner-${id}`, { status: 'ready', message: 'z'.repeat(100) }]))
  }
}

t.test('one changed instance of many sends that one', async (t) => {
  const state = large()
  const rig = bench(t, state)
  const one = await rig.follow()
  t.strictSame(one.state(), JSON.parse(JSON.stringify(state)))
  t.ok(one.updates[0]! > 500_000, `all of it is ${one.updates[0]} bytes`)
  let now = state
  const after = async (what: string, next: Partial<State>, bytes = 4096): Promise<void> => {
    now = { ...now, ...next }
    one.updates.length = 0
    await rig.change(now)
    t.strictSame(one.state(), JSON.parse(JSON.stringify(now)), what)
    const sent = one.updates.reduce((a, b) => a + b, 0)
    t.ok(sent > 0 && sent < bytes, `${what}: ${sent} bytes`)
  }
  const changed = { ...state.instances['instance-77'], shards: 'n'.repeat(300) }
  await after('changed', { instances: { ...state.instances, 'instance-77': changed } })
  const { 'instance-5': _, ...rest } = state.instances
  await after('removed', { instances: rest })
  t.notOk(one.keys().includes('instances/instance-5'), 'its entry is gone')
  await after('new', { instances: { ...rest, 'a/b': { modelId: 'm' } } })
  await after('all gone', { instances: {} }, 64 * 1024)
  t.ok(one.keys().includes('instances'), 'an empty object is still there')
  await after('another kind of value', { instances: null })
  await after('and back', { instances: { 'instance-1': changed } })
  one.updates.length = 0
  await rig.change({ ...now, sessionId: 's1' })
  t.strictSame(one.updates, [], 'nothing new sends nothing')
})

t.test('many changes do not make the document larger, nor send it again', async (t) => {
  const state = large()
  const rig = bench(t, state)
  const one = await rig.follow()
  const whole = one.updates[0]!
  let instances = state.instances
  for (let n = 0; n < 100; n++) {
    const id = `instance-${n * 997 % INSTANCES}`
    instances = { ...instances, [id]: { ...instances[id], turn: n } }
    await rig.change({ ...state, instances })
  }
  t.ok(Math.max(...one.updates.slice(1)) < 4096, 'each change is small')
  const late = await rig.follow()
  t.ok(late.updates[0]! < whole * 1.2, `${late.updates[0]} bytes after ${whole}`)
  t.strictSame(late.state(), one.state())
})

t.test('a frozen value that is the same object is not looked at again; any other is', async (t) => {
  let read = 0
  const shown = (n: number): object => ({ n, toJSON () { read++; return { n } } })
  const frozen = Object.freeze(shown(1))
  const open = shown(1)
  const rig = bench(t, { list: { frozen, open }, other: 0 })
  const one = await rig.follow()
  t.equal(read, 2)
  await rig.change({ list: { frozen, open }, other: 1 })
  t.equal(read, 3)
  Object.assign(open, { toJSON: () => ({ n: 2 }) })
  await rig.change({ list: { frozen, open }, other: 1 })
  t.strictSame(one.state(), { list: { frozen: { n: 1 }, open: { n: 2 } }, other: 1 })
})

t.test('times of links and readings come now and then, and links that change at once', async (t) => {
  const links = (rttMs: number, to = 'b'): State =>
    ({ a: { [to]: [{ session: true, rttMs, bytesPerSecond: null }] } })
  const state = (rttMs: number, to?: string): State =>
    ({ topology: { nodes: ['a', 'b'], connections: links(rttMs, to) }, load: { a: rttMs } })
  const rig = bench(t, state(1))
  const one = await rig.follow()
  t.strictSame(one.state(), state(1))
  await rig.change(state(2))
  t.strictSame(one.state(), state(1), 'not at once')
  await rig.clock.advance(2000)
  t.strictSame(one.state(), state(2), 'after a while')
  await rig.change(state(3, 'c'))
  t.strictSame(one.state(), { ...state(3, 'c'), load: { a: 2 } }, 'another link')
})
