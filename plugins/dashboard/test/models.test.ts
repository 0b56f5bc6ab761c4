import t from 'tap'
import {
  copiesByNode, filterRows, rowsOf, wantedOf, type Copied, type Download, type Entry, type Live
} from '../page/models/data.js'
import { placeBody, queryOf, termsOf, waysOf, type NodeSum, type Preview } from '../page/models/previews.js'
import type { Instance, Transfer } from '../page/state.js'

const ID = 'acme/chat'
const entry = (more: Partial<Entry> = {}): Entry => ({
  id: ID, name: 'Chat', description: '', tasks: ['chat'], family: 'llama', quantization: 'q4',
  context_length: 512, storage_size_megabytes: 2, installed: true, ready: false, virtual: false,
  remedy: null, ...more
}) as Entry
const copy = (more: Partial<Copied> = {}): Copied => ({
  modelId: ID, nodeId: 'n1', nodeName: 'attic', live: true, sizeBytes: 7, digest: 'd', kind: 'staged', ...more
})
const download = (more: Partial<Download> = {}): Download => ({
  modelId: ID, status: 'downloading', progress: 0, error: null, downloadedBytes: 1, totalBytes: 4,
  bytesPerSecond: 0, etaMs: null, startedAt: 'a', revision: null, reason: null, source: null, ...more
})
const instance = (phase: string): Instance =>
  ({ modelId: ID, instanceId: phase, phase, ready: phase === 'ready' }) as Instance
const transfer = (status: Transfer['status']): Transfer => ({
  nodeId: 'n1', modelId: ID, status, done: 0, total: 1, bytesPerSecond: null, etaMs: null,
  error: null
})
const live = (more: Partial<Live> = {}): Live =>
  ({ instances: [], downloads: [], transfers: [], waiting: [], ...more })

t.test('how a model does', (t) => {
  const cases: [string, string, Entry[], Copied[], Partial<Live>][] = [
    ['ready', 'ok', [entry({ remedy: 'old' })], [copy()], { instances: [instance('ready')] }],
    ['ready', 'ok', [entry()], [], { instances: [instance('failed'), instance('ready')] }],
    ['loading', 'warn', [entry({ ready: true })], [copy()], { instances: [instance('loading')] }],
    ['failed', 'error', [entry()], [], { instances: [instance('loading'), instance('failed')] }],
    ['ready', 'ok', [entry({ virtual: true, ready: true })], [], {}],
    ['not ready', 'warn', [entry({ virtual: true })], [], {}],
    ['waits for a place', 'warn', [entry()], [copy()], { waiting: [ID] }],
    ['downloading', 'warn', [], [], { downloads: [download()] }],
    ['downloading', 'warn', [entry()], [copy()], { downloads: [download()] }],
    ['paused', 'warn', [], [], { downloads: [download({ status: 'paused' })] }],
    ['not placed', 'plain', [entry()], [copy()], { downloads: [download({ status: 'cancelled' })] }],
    ['failed', 'error', [], [], { downloads: [download({ status: 'failed', error: 'why' })] }],
    ['being copied', 'warn', [entry()], [copy()], { transfers: [transfer('ongoing')] }],
    ['not placed', 'plain', [entry()], [copy()], { transfers: [transfer('completed')] }],
    ['not placed', 'plain', [entry()], [], {}],
    ['no copy', 'error', [entry({ installed: false, remedy: 'pull it' })], [], {}]
  ]
  for (const [state, level, entries, copies, more] of cases) {
    t.match(rowsOf(entries, copies, live(more)), [{ id: ID, state, level }], `${state} ${level}`)
  }
  t.equal(rowsOf([entry({ remedy: 'old' })], [], live({ instances: [instance('ready')] }))[0]!.remedy, null)
  const downloads = [download({ status: 'failed', error: 'why' })]
  t.match(rowsOf([], [], live({ downloads })), [{ remedy: 'why', placeable: false }])
  t.match(rowsOf([entry()], [], live()), [{ placeable: true }])
  t.end()
})

t.test('the catalogue has every model that is anywhere, once', (t) => {
  const copies = [
    copy({ modelId: 'b/disk', nodeName: 'b' }), copy({ modelId: 'b/disk', nodeName: 'a', nodeId: 'n2' }),
    copy({ modelId: 'b/disk', kind: 'store', nodeName: 'a', nodeId: 'n2' }),
    copy({ modelId: 'c/coming', kind: 'receiving', sizeBytes: 1 })
  ]
  const rows = rowsOf([entry()], copies, live({
    downloads: [download({ modelId: 'd/pull' }), download({ modelId: 'e/old', status: 'complete' })]
  }))
  t.same(rows.map(({ id, sizeBytes, nodes }) => [id, sizeBytes, nodes]), [
    [ID, 2 * 1024 ** 2, []], ['b/disk', 7, ['a', 'b']], ['c/coming', null, []], ['d/pull', null, []]
  ])
  const found = (text: string): string[] => filterRows(rows, text).map(({ id }) => id)
  t.same(found(''), rows.map(({ id }) => id))
  t.same(found('CHAT acme'), [ID])
  t.same(found('downloading'), ['d/pull'])
  t.same(found('acme disk'), [])
  t.end()
})

t.test('copies by node, without what ships with svc', (t) => {
  const copies = [
    copy({ nodeId: 'n2', nodeName: 'b' }), copy({ nodeId: 'n1', nodeName: 'a', kind: 'store' }),
    copy({ nodeId: 'n1', nodeName: 'a', modelId: 'svc/x', kind: 'bundled' }),
    copy({ nodeId: 'n1', nodeName: 'a', modelId: 'svc/x', kind: 'store' }),
    copy({ nodeId: 'n3', nodeName: 'c', modelId: 'svc/x', kind: 'bundled' })
  ]
  t.match(copiesByNode(copies), [
    { nodeId: 'n1', copies: [{ modelId: ID, kind: 'store' }] }, { nodeId: 'n2', copies: [{ modelId: ID }] }
  ])
  t.equal(copiesByNode(copies).length, 2)
  t.end()
})

t.test('what is typed as a model of the hub', (t) => {
  const good: [string, string, string | null, string | null][] = [
    ['acme/chat', 'acme/chat', null, null], [' acme/chat:Q4_K_M ', 'acme/chat', 'Q4_K_M', null],
    ['acme/chat.v2@main', 'acme/chat.v2', null, 'main'], ['hf.co/acme/chat:q4', 'acme/chat', 'q4', null],
    ['https://huggingface.co/acme/chat/', 'acme/chat', null, null], ['a/b:q4@v1/x', 'a/b', 'q4', 'v1/x']
  ]
  for (const [text, ...parts] of good) t.same(Object.values(wantedOf(text) ?? {}), parts, text)
  for (const bad of ['', 'qwen 0.5b', 'qwen', 'a/b/c', '../x', 'a/b:', 'https://evil.example/a/b', '/a/b']) {
    t.equal(wantedOf(bad), null, bad)
  }
  t.end()
})

const sum = (nodeId: string, more: Partial<NodeSum> = {}): NodeSum => ({
  nodeId, backend: 'cpu', startLayer: 0, endLayer: 4, shareBytes: 10, neededBytes: 20, usableBytes: 30,
  ...more
})
const preview = (more: Partial<Preview> = {}): Preview => ({
  model_id: ID, sharding: 'Pipeline', instance_meta: 'Ring', min_nodes: 1, instance: {}, error: null,
  memory_delta_by_node: null, reason: null, details: { why: 'because', ranks: [sum('n1')] }, ...more
})

t.test('the ways to place a model: what fits first, equal ones once', (t) => {
  const short = preview({
    error: 'too little', reason: 'insufficient_memory', instance: null, min_nodes: 3,
    details: { nodes: [sum('n2', { neededBytes: 40 })], suggestions: [{ kind: 'free', nodeId: 'n2', bytes: 1,
      text: 'free it' }] }
  })
  const nodesOnly = preview({
    sharding: 'Tensor', error: 'no', reason: 'no_backend', details: { nodes: [{ nodeId: 'n1' }] }
  })
  const two = preview({ min_nodes: 2, details: { ranks: [sum('n1', { endLayer: 2 }), sum('n2')] } })
  const ways = waysOf([short, preview(), preview({ sharding: 'Tensor' }), two, nodesOnly])
  t.same(ways.map(({ key, fits, short: less, sums, suggestions }) =>
    [key, fits, less, sums.length, suggestions.length]), [
    ['Pipeline Ring 1', true, false, 1, 0], ['Pipeline Ring 2', true, false, 2, 0],
    ['Pipeline Ring 3', false, true, 1, 1], ['Tensor Ring 1', false, false, 0, 0]
  ])
  t.same(ways.map(({ title }) => title), [
    'On one node', 'On 2 nodes, each with some of the layers (Pipeline, Ring)',
    'On 3 nodes or more, each with some of the layers (Pipeline, Ring)', 'On one node'
  ])
  t.same(placeBody(ways[1]!, { contextLength: 99, excluded: ['i3'] }, false), {
    model_id: ID, sharding: 'Pipeline', instance_meta: 'Ring', min_nodes: 2, excluded_nodes: ['i3'],
    context_length: 99
  })
  t.match(placeBody(ways[2]!, { contextLength: null, excluded: [] }, true), { force: true })
  t.equal(String(queryOf('a/b', { contextLength: 8, excluded: ['x', 'y'] })),
    'model_id=a%2Fb&context_length=8&excluded_node_ids=x&excluded_node_ids=y')
  t.end()
})

t.test('the terms of a sum, where they are told', (t) => {
  const text = (count: number): string => `${count}b`
  t.same(termsOf(sum('n1'), text), { need: 'for 10b of weights', use: '' })
  t.same(termsOf(sum('n1', {
    cacheBytes: 2, bufferBytes: 6, fixedBytes: 3, freeBytes: -1, limitBytes: 5, reservedBytes: 4
  }), text), {
    need: 'weights 10b + KV cache 2b + buffers 6b + process 3b',
    use: 'the lesser of 0b free and 5b allowed, less 4b of models that load'
  })
  t.end()
})
