import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { manualClock } from '../../../kernel/testing/index.js'
import { ModelLists, type ModelEntries } from '../manager/model-lists.js'
import { card } from '../../runners/test/samples.js'
import { recordOf, write } from './files-kit.js'
import {
  call, codes, contextOf, json, memorySection, Network, scratch, startNode, until, type MemorySection,
  type NetNode
} from './manager-kit.js'
import type { ModelCard } from '../../../kernel/index.js'
import type { StagingContext } from '../manifest.js'
import type { CopyEntry, StoreEntryFact } from '../types.js'

/** Number of models, about three times as many as fit into a document. */
const COUNT = 450

const idOf = (n: number): string => `acme/m${String(n).padStart(4, '0')}`

/** A store with `count` models of one byte. */
function storeOf (folder: string, count: number, more: Partial<ModelCard> = {}): string {
  for (let n = 0; n < count; n++) {
    const directory = join(folder, idOf(n).replace('/', '--'))
    mkdirSync(directory)
    write(directory, { 'model.onnx': 'x' })
    const record = { format: 1, ...recordOf(idOf(n), { 'model.onnx': 'x' }), card: card(idOf(n), more) }
    writeFileSync(join(directory, '.svc-record.json'), JSON.stringify(record))
  }
  return folder
}

t.test('every model of a store is listed, also where no document has room for all', async (t) => {
  const rig = await startNode(t, { store: storeOf(scratch(t), COUNT) })
  const { body: { entries } } = await call(rig, 'GET', '/store/registry')
  t.equal((entries as unknown[]).length, COUNT)
  const { body: { data } } = await call(rig, 'GET', '/v1/models')
  t.equal((data as { installed: boolean }[]).filter(({ installed }) => installed).length, COUNT)
  const { body: { copies } } = await call(rig, 'GET', '/models/copies')
  t.equal((copies as unknown[]).length, COUNT)
  t.same(codes(rig), [])
})

interface Side {
  lists: ModelLists
  warned: unknown[]
  sections: Record<'storeModels' | 'modelCopies' | 'modelLists', MemorySection<never>>
  clock: ReturnType<typeof manualClock>
}

const none = (): void => {}
const silent = { debug: none, info: none, warn: none, error: none, fatal: none }

function side (cluster: NetNode): Side {
  const own = cluster.self.nodeId
  const clock = manualClock()
  const sections = {
    storeModels: memorySection<never>(own), modelCopies: memorySection<never>(own),
    modelLists: memorySection<never>(own)
  }
  const warned: unknown[] = []
  const log = { ...silent, warn: (fields: unknown) => { warned.push(fields) } }
  const given = contextOf(cluster,
    { clock, log, sections: sections as Partial<StagingContext['sections']> })
  return { lists: new ModelLists(given), warned, sections, clock }
}

const fact = (id: string): StoreEntryFact => ({
  digest: 'd', revision: 'main', totalBytes: 1, source: 'file', downloadedAt: '', bundled: false,
  card: card(id)
})
const copy: CopyEntry = { kind: 'staged', digest: 'd', sizeBytes: 1, ready: false }
const entriesOf = (count: number, make: (id: string) => unknown): Map<string, unknown> =>
  new Map(Array.from({ length: count }, (_, n) => [idOf(n), make(idOf(n))]))
const models = (more: Partial<ModelEntries>): ModelEntries =>
  ({ storeModels: new Map(), modelCopies: new Map(), ...more })

/** Copies documents from one node to the other, which then fetches newer lists. */
async function sync (from: Side, to: Side, nodeId: string): Promise<void> {
  for (const [name, section] of Object.entries(from.sections)) {
    const other = to.sections[name as keyof Side['sections']]
    const entries = [...section.entries()].filter((entry) => entry.nodeId === nodeId)
    const keys = new Set(entries.map(({ key }) => key))
    for (const { key } of [...other.entries()].filter((entry) => entry.nodeId === nodeId)) {
      if (!keys.has(key)) other.unsays(nodeId, key)
    }
    for (const { key, value } of entries) other.says(nodeId, key, value)
  }
  await to.clock.advance(5000)
}

t.test('what a document has no room for is fetched by the other nodes', async (t) => {
  const net = new Network()
  const one = net.node('one')
  const a = side(one)
  const b = side(net.node('two'))
  const seen = (): number => [...b.lists.ctx.sections.storeModels.entries()].length
  const asked = (): number => one.asked.length
  let answers = 'well'
  one.serve = () => answers === 'well' ? json(200, a.lists.answer()) : json(503, {})

  t.equal(a.lists.publish(models({ storeModels: entriesOf(20, fact) })), 0)
  await sync(a, b, 'n-one')
  t.equal(seen(), 20)
  t.equal(asked(), 0, 'a few are in the document alone')

  answers = 'not'
  a.lists.publish(models({
    storeModels: entriesOf(COUNT, fact), modelCopies: entriesOf(COUNT, () => copy)
  }))
  const bytes = Object.values(a.sections).flatMap((section) => [...section.entries()])
    .reduce((sum, entry) => sum + Buffer.byteLength(JSON.stringify(entry)), 0)
  t.ok(bytes < 192 * 1024 / 2 + COUNT * 40, `${bytes} bytes: half of the document is left to others`)
  await sync(a, b, 'n-one')
  await until(() => b.warned.length === 1)
  t.ok(seen() < COUNT, 'a node that gives no list is known by its document')
  answers = 'well'
  await b.clock.advance(5000)
  await until(() => seen() === COUNT)
  const last = idOf(COUNT - 1)
  t.match(b.lists.ctx.sections.storeModels.get(last, 'n-one'), { card: { modelId: last } })
  t.equal([...a.lists.ctx.sections.storeModels.entries()].length, COUNT, 'the node itself sees all of them')
  const before = asked()
  await sync(a, b, 'n-one')
  t.equal(asked(), before, 'what is known is not fetched again')

  a.lists.publish(models({ storeModels: entriesOf(500, fact) }))
  await sync(a, b, 'n-one')
  await until(() => seen() === 500)
  t.equal(b.lists.ctx.sections.storeModels.get(idOf(700), 'n-one'), undefined)
  a.lists.publish(models({}))
  await sync(a, b, 'n-one')
  t.equal(seen(), 0)
})

t.test('a list is checked entry by entry, and ends with its node', async (t) => {
  const net = new Network()
  const one = net.node('one')
  const b = side(net.node('two'))
  one.serve = () => json(200, { version: 3, rest: {
    storeModels: { 'acme/good': fact('acme/good'), 'acme/bad': { digest: 1 }, ['__proto__']: 4 },
    other: { x: 1 }
  } })
  b.sections.modelLists.says('n-one', 'rest', { version: 3, count: 2 } as never)
  await b.clock.advance(5000)
  const { storeModels } = b.lists.ctx.sections
  await until(() => [...storeModels.entries()].length > 0)
  t.same([...storeModels.entries()].map(({ key }) => key), ['acme/good'])
  b.sections.modelLists.lost('n-one')
  t.same([...storeModels.entries()], [], 'a node that is away is not listed')
  t.match(storeModels.get('acme/good', 'n-one'), { digest: 'd' }, 'what it said last is still known')
})

t.test('more than a list takes is a warning of the node', async (t) => {
  const { lists } = side(new Network().node('one'))
  const long = entriesOf(400, (id) => ({ ...fact(id), source: 'x'.repeat(50_000) }))
  const untold = lists.publish(models({ storeModels: long }))
  t.ok(untold > 0 && untold < 100, `${untold} models`)
  t.ok(JSON.stringify(lists.answer()).length <= 16 * 1024 * 1024 + 1024, 'the others accept what is sent')
  const voices = Array.from({ length: 500 }, (_, n) =>
    ({ id: `${'v'.repeat(180)}${n}`, name: 'x', language: 'en' }))
  const rig = await startNode(t, { store: storeOf(scratch(t), 180, { voices }) })
  await until(() => codes(rig).length > 0)
  t.same(codes(rig), ['models_not_published'])
  const { body: { data } } = await call(rig, 'GET', '/v1/models')
  t.equal((data as unknown[]).length, 180, 'here all of them can be used')
})
