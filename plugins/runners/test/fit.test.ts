import t from 'tap'
import type { Caller } from '../../../kernel/index.js'
import { needOf } from '../cards/memory-forecast.js'
import { createFit, memoryView, shortage } from '../machine/memory.js'
import type { ShardBody } from '../instances/sections.js'
import { devicePartsOf, stateCard } from '../instances/shapes.js'
import type { Member } from '../instances/runner-set.js'
import type { Machine, RunnerReport } from '../service.js'
import { card } from './samples.js'

const GIB = 1024 ** 3
const MIB = 1024 ** 2
const shard = (over: Partial<ShardBody>): ShardBody => ({
  modelCard: stateCard(card('m')), deviceRank: 0, worldSize: 1, startLayer: 0, endLayer: 4, nLayers: 4,
  ...over
})

const shares: [string, ShardBody | null, number][] = [
  ['an unknown part is all of it', null, 1000],
  ['one node', shard({}), 1000],
  ['three of four layers', shard({ startLayer: 1, worldSize: 2 }), 750],
  ['a slice of every layer', shard({ worldSize: 3 }), 334],
  ['no layers at all', shard({ startLayer: 4 }), 1000],
  ['a card that lies about its layers', shard({ nLayers: 0 }), 1000],
  ['layers from the end to the start', shard({ startLayer: 4, endLayer: 0 }), 1000],
  ['a world of none', shard({ worldSize: 0 }), 1000]
]
for (const [name, part, bytes] of shares) {
  t.test(`weights: ${name}`, async (t) => {
    const { of, parts } = devicePartsOf(part)[0]!.part
    t.equal(Math.ceil(1000 * of / parts), bytes)
  })
}

t.test('weights and the fixed part must be below what is free', async (t) => {
  const ask = { modelId: 'svc/m', shareBytes: 4 * GIB, fixedBytes: 256 * MIB, gpu: false }
  t.equal(shortage({ ...ask, free: 4 * GIB + 256 * MIB + 1 }), null)
  t.equal(shortage({ ...ask, free: 4 * GIB + 256 * MIB }), 'svc/m needs 4.3 GiB of memory on this node ' +
  '(4.0 GiB of weights and 256 MiB besides them), but only 4.3 GiB are free now: stop other programs or ' +
  'models there (`svc stop MODEL`), or place it on another node: `svc place svc/m --exclude NODE`')
  t.match(shortage({ ...ask, gpu: true, free: -5 }), /of GPU memory .* but only 0 B are free/)
})

t.test('a node takes what was planned for it: the planner and the start count alike', async (t) => {
  const small = { overhead: 1.2, fixedBytes: 176 * MIB }
  const voice = card('svc/m', { totalBytes: 4 * MIB })
  const { neededBytes } = needOf(voice, small)
  const check = createFit({
    machine: { freeRam: async () => neededBytes + 1, freeVram: async () => [] }, shard: () => null,
    traits: () => small
  })
  await check({ instanceId: 'I', runnerId: 'R', modelId: 'svc/m' },
    { spec: { card: voice, backend: 'cpu' } as never })
})

const cases: [string, string, Partial<Machine>, boolean][] = [
  ['room in memory', 'cpu', { freeRam: async () => 2 * GIB }, true],
  ['no room in memory', 'cpu', { freeRam: async () => GIB }, false],
  ['no reading', 'cpu', { freeRam: async () => null }, true],
  ['a reading that fails', 'cpu', { freeRam: async () => { throw new Error('no') } }, true],
  ['a GPU is asked for its own', 'cuda', { freeVram: async () => [GIB] }, false],
  ['a GPU with room', 'webgpu', { freeVram: async () => [2 * GIB] }, true],
  ['a GPU without a reading', 'cuda', { freeVram: async () => [null] }, true]
]
for (const [name, backend, memory, fits] of cases) {
  t.test(`before it is loaded: ${name}`, async (t) => {
    const check = createFit({ machine: memory as Machine, shard: () => null, traits: () => ({}) })
    const spec = { card: card('svc/m', { totalBytes: GIB }), backend } as never
    const done = check({ instanceId: 'I', runnerId: 'R', modelId: 'svc/m' }, { spec })
    if (fits) await done
    else await t.rejects(done, { errorCode: 'insufficient_memory', message: /svc\/m needs/ })
  })
}

t.test('each device has room for its own layers', async (t) => {
  const check = async (gpuLayers: number[], vram: number[], ram: number): Promise<unknown> => {
    const machine = { freeVram: async () => vram, freeRam: async () => ram }
    const shard = { startLayer: 0, endLayer: 10, nLayers: 10, worldSize: 1, gpuLayers } as never
    const spec = { card: card('svc/m', { totalBytes: 10 * GIB }), backend: 'cuda' } as never
    return await createFit({ machine, shard: () => shard, traits: () => ({}) })(
      { instanceId: 'I', runnerId: 'R', modelId: 'svc/m' }, { spec })
      .then(() => 'fits', (error: Error) => error)
  }
  t.equal(await check([6, 4], [7 * GIB, 5 * GIB], 0), 'fits')
  t.match(await check([6, 4], [7 * GIB, 4 * GIB], 99 * GIB), { message: /GPU memory .*4.0 GiB of weights/ })
  t.equal(await check([6, 0], [7 * GIB, 0], 5 * GIB), 'fits', 'the rest on the CPU')
  t.match(await check([6, 0], [7 * GIB, 0], 4 * GIB), { message: /4.3 GiB of memory on this node/ })
})

t.test('a node tells the memory of its runners, and what was counted for them', async (t) => {
  const report = { runnerId: 'r1', pid: process.pid, rssBytes: 5, estimatedBytes: 6 } as RunnerReport
  let last: ReturnType<Machine['lastGpus']> = { atMs: 9, gpus: [], vramByPid: new Map() }
  const fleet = { reports: () => [report], get: () => ({ loadedAt: 10 } as Member) }
  const view = memoryView('n1', fleet, () => last, () => 3)
  const caller = { id: 'x' } as Caller
  const runnerMemory = {
    r1: {
      residentBytes: 5, estimatedBytes: 6, vramBytes: null as number | null, vramCounted: false,
      idleSeconds: 3
    }
  }
  t.strictSame(view(caller, { n1: { pcpuUsage: 1 }, n2: { pcpuUsage: 2 } }),
    { n1: { pcpuUsage: 1, runnerMemory }, n2: { pcpuUsage: 2 } })
  t.strictSame(view(caller, { n1: null }), { n1: { runnerMemory } }, 'before the first reading')
  last = { atMs: 10, gpus: [], vramByPid: new Map([[process.pid, 7], [1, 8]]) }
  Object.assign(runnerMemory.r1, { vramBytes: 7, vramCounted: true })
  t.strictSame(view(caller, { n1: null }), { n1: { runnerMemory } }, 'GPUs were read since it was loaded')
})
