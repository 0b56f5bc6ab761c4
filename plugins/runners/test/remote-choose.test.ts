import t from 'tap'
import {
  EngineError, kernelError, type CapabilityCall, type Cluster, type NodeView, type Section
} from '../../../kernel/index.js'
import { manualClock } from '../../../kernel/testing/index.js'
import type { Member } from '../instances/runner-set.js'
import { Availability, type AvailabilityParts } from '../routing/availability.js'
import { pick, type Candidate } from '../routing/pick.js'
import { PrefixTable } from '../routing/prefixes.js'
import { Routing, type RoutingParts } from '../routing/routing.js'
import { TaskTable } from '../routing/tasks.js'
import { RunnerError } from '../process/errors.js'
import { PlacedInstances } from '../instances/document.js'
import { runTask, type Route, type RunnerStatus } from '../service.js'
import { bodyOf } from '../instances/shapes.js'
import type { Instance } from '../instances/sections.js'
import { caller, hear, task, VOICE } from './remote-kit.js'
import { card, soloInstance } from './samples.js'

const call = { caller, signal: new AbortController().signal, setHeader () {} } as unknown as CapabilityCall
const refusals: [Error, number][] = [
  [kernelError('instance_lost', 'x', { begun: false }), 2],
  [new EngineError('context_length_exceeded', 'x'), 1]
]
for (const [refusal, most] of refusals) {
  t.test(`an instance that refused a task is not tried again: ${refusal.message}`, async (t) => {
    let opened = 0
    const heard = await hear(runTask({
      route: async () => ({ instanceId: '', taskId: 'T' } as Route),
      open: async function * () { opened += 1; throw refusal }
    }, { modelId: VOICE, capability: 'tts', task }, call))
    t.equal(heard.error, refusal)
    t.equal(opened, most, 'by a router that has one instance only')
  })
}

for (const [refusal] of refusals) {
  t.test(`the tries of a request end: ${refusal.message}, with another instance each time`, async (t) => {
    const opened: string[] = []
    const heard = await hear(runTask({
      route: async () => ({ instanceId: `i${opened.length}`, taskId: 'T' } as Route),
      open: async function * ({ instanceId }) { opened.push(instanceId); throw refusal }
    }, { modelId: VOICE, capability: 'tts', task }, call))
    t.equal(heard.error, refusal)
    t.same(opened, Array.from({ length: 17 }, (_, i) => `i${i}`), 'the first and 16 more')
  })
}

const LONG = 'context_length_exceeded'
const rooms: [string, Record<string, number>, string[], string | null][] = [
  ['one with room answers', { a: 1024, b: 2048, c: 4096, d: 4096 }, ['a', 'b', 'c'], 'c'],
  ['one of the same size is not tried', { a: 2048, b: 1024, c: 2048 }, ['a'], null],
  ['the largest refuses last', { a: 1024, b: 2048 }, ['a', 'b'], null]
]
for (const [name, contexts, tried, answers] of rooms) {
  t.test(`a prompt for which an instance has no room: ${name}`, async (t) => {
    const opened: string[] = []
    const open = (id: string) => async function * () {
      opened.push(id)
      if (id !== answers) throw new RunnerError(LONG, `${id} refuses`)
      yield { payload: {} }
    }
    const all = Object.entries(contexts).map(([id, contextLength]) =>
      instance(id, 'me', card('acme/x', { contextLength })))
    const clock = manualClock()
    const tasks = new TaskTable(() => clock.mono())
    const failed: unknown[] = []
    let ids = 0
    const parts: Partial<RoutingParts> = {
      ...partsOf(section(all), section<RunnerStatus>([])), tasks, clock, newId: () => `T${ids += 1}`,
      prefixes: new PrefixTable(),
      bundle: { model: () => ({ card: card('acme/x') }), engine: () => undefined } as never,
      fleet: {
        status: ready, get: (runner: string) => ({ supervisor: { open: open(runner.slice(2)) } })
      } as never,
      watchers: { admit () {}, begin: () => undefined, beginVirtual: () => undefined },
      taskFailed: (failure) => { failed.push(failure) },
      backend: () => null, absence: () => null, learning: () => false
    }
    const routing = new Routing(parts as RoutingParts)
    routing.onMissing(() => { throw new Error('no further instance is placed for it') })
    const heard = await hear(runTask(routing, { modelId: 'acme/x', capability: 'tts', task }, call))
    t.same(opened, tried)
    t.equal(heard.error?.['message'], answers === null ? `${tried.at(-1)!} refuses` : undefined)
    t.same(tasks.all().map(({ status }) => status),
      tried.map((id) => id === answers ? 'Complete' : 'Failed'), 'each try has ended in the task table')
    t.same(failed, [], 'and is no failure of its instance')
  })
}

const at = (name: string, load: number, own = false): Candidate =>
  ({ nodeId: `n-${name}`, installId: `i-${name}`, instanceId: name, runnerId: `r-${name}`, own, load,
    contextTokens: 0 })

const choose = (candidates: readonly Candidate[]): Candidate | undefined => {
  const chosen = pick(candidates, {})
  return 'code' in chosen ? undefined : chosen
}
const choices: [string, Candidate[], string | undefined][] = [
  ['nobody', [], undefined],
  ['the only one', [at('a', 7)], 'a'],
  ['the least loaded', [at('a', 2), at('b', 1), at('c', 3)], 'b'],
  ['the least loaded, though another is here', [at('a', 2, true), at('b', 1)], 'b'],
  ['of equals the own one', [at('a', 1), at('b', 1, true), at('c', 1)], 'b'],
  ['of own equals the lower instance id', [at('b', 0, true), at('a', 0, true)], 'a'],
  ['of foreign equals the lower instance id', [at('c', 0), at('b', 0), at('d', 0)], 'b'],
  ['by code units, not by language', [at('a', 0), at('B', 0)], 'B'],
  ['of one instance the lower runner id',
    [{ ...at('a', 0), runnerId: 'y' }, { ...at('a', 0), runnerId: 'x' }], 'a']
]
for (const [name, candidates, expected] of choices) {
  t.test(`it takes ${name}`, async (t) => {
    t.equal(choose(candidates)?.instanceId, expected)
    t.equal(choose(candidates.toReversed())?.instanceId, expected, 'in whatever order they come')
    t.equal(choose(candidates.toReversed())?.runnerId, choose(candidates)?.runnerId)
  })
}

const node = (nodeId: string, live: boolean): NodeView =>
  ({ nodeId, installId: `i-${nodeId}`, self: nodeId === 'me', live }) as NodeView
let looks = 0
const cluster: Pick<Cluster, 'nodes'> = {
  nodes () {
    looks += 1
    return [node('me', true), node('b', true), node('c', true), node('down', false)]
  }
}

const section = <T>(all: [nodeId: string, key: string, value: T][]): Section<T> =>
  ({
    get: (key: string, node: string) => all.find(([nodeId, name]) => nodeId === node && name === key)?.[2],
    entries: () => all.map(([nodeId, key, value]) => ({ nodeId, key, value })),
    observe: () => () => {}
  }) as unknown as Section<T>

const instance = (instanceId: string, nodeId: string, model = card('acme/x')): [string, string, Instance] =>
  ['master', instanceId, soloInstance({ instanceId, runnerId: `r-${instanceId}`, nodeId }, model)]

const draining = (instanceId: string, nodeId: string): [string, string, Instance] => {
  const [master, key, one] = instance(instanceId, nodeId)
  const ring = bodyOf(one)
  return [master, key, { RingInstance: { ...ring, drainUntil: '2026-01-01T00:00:00.000Z' } }]
}

const ready = (): RunnerStatus => ({ RunnerReady: {} })
const partsOf = (instances: Section<Instance>, runners: Section<RunnerStatus>) => ({
  self: { nodeId: 'me', installId: 'i-me' },
  cluster: cluster as RoutingParts['cluster'],
  placed: new PlacedInstances(instances, 'me'),
  sections: { runners, failures: section<never>([]) }
})

function availability (...of: Parameters<typeof partsOf>): Availability {
  const fleet = { get: () => ({}) as Member, status: ready }
  const idle = { outstanding: () => 0 }
  const parts: Partial<AvailabilityParts> = {
    ...partsOf(...of), fleet, tasks: idle, remoteTasks: idle, gossip: { load: () => null }
  }
  return new Availability(parts as AvailabilityParts)
}

t.test('runners of other live nodes, with what those nodes say of them', async (t) => {
  const all = availability(section<Instance>([
    instance('1', 'me'), instance('2', 'b'), instance('3', 'c', card('acme/y')), instance('4', 'down'),
    instance('5', 'nobody'), instance('6', 'old-b'), draining('7', 'c')
  ]), section<RunnerStatus>([['b', 'r-2', { RunnerReady: {} }], ['c', 'r-7', { RunnerReady: {} }],
    ['b', 'r-3', { RunnerReady: {} }], ['down', 'r-4', { RunnerReady: {} }]]))
  const there = (modelId: string) => all.snapshot(modelId).runners.filter(({ own }) => !own)
  t.same(there('acme/x'), [
    { nodeId: 'b', installId: 'i-b', instanceId: '2', runnerId: 'r-2', modelId: 'acme/x', own: false,
      serving: true, status: { RunnerReady: {} } },
    { nodeId: 'c', installId: 'i-c', instanceId: '7', runnerId: 'r-7', modelId: 'acme/x', own: false,
      serving: false, status: { RunnerReady: {} } }
  ], 'one whose instance is being stopped takes no new request')
  t.match(there('acme/y'), [{ instanceId: '3', status: null }],
    'what a node says of another node\'s runner does not count')
  t.same(there('acme/none'), [])
  t.same(all.candidates(all.snapshot('acme/x')).filter(({ own }) => own).map(({ runnerId }) => runnerId),
    ['r-1'])
})

t.test('a model that is only here costs no look at the other nodes', async (t) => {
  const all = availability(section([instance('1', 'me')]), section<RunnerStatus>([]))
  const before = looks
  t.match(all.snapshot('acme/x').runners, [{ own: true, serving: true }])
  t.equal(looks, before)
})

t.test('the instances are read once after each change', async (t) => {
  let reads = 0
  let changed = (): void => {}
  const all = [instance('1', 'me')]
  const placed = new PlacedInstances({
    entries () { reads += 1; return all.map(([nodeId, key, value]) => ({ nodeId, key, value })) },
    observe (fn: () => void) { changed = fn; return () => {} }
  } as unknown as Section<Instance>, 'me')
  for (let n = 0; n < 3; n++) t.equal(placed.of('acme/x').length, 1)
  t.equal(reads, 1)
  all.push(instance('2', 'b'))
  changed()
  t.equal(placed.of('acme/x').length, 2)
  t.equal(reads, 2)
})
