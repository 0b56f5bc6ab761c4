import t from 'tap'
import { advance, type StagedNode, type StageSnapshot } from '../cli/stage.js'
import { nodeOf, quickPace, sendError, sendJson, stateOf, type Rig } from './verb-kit.js'
import type { StateView } from '../cli/cluster.js'

const pending = (attemptId = 'a1'): object => ({ DownloadPending: {
  nodeId: 'n2', modelId: 'acme/x', attemptId, downloaded: 0, total: 1000 } })
const ongoing = (downloaded: number): object => ({ DownloadOngoing: {
  nodeId: 'n2', modelId: 'acme/x', attemptId: 'a1', downloadProgress: {
    total: 1000, downloaded: downloaded, completedFiles: 0, totalFiles: 1,
    speed: 10, etaMs: 2000 } } })
const completed = (attemptId = 'a1'): object => ({ DownloadCompleted: {
  nodeId: 'n2', modelId: 'acme/x', attemptId, total: 1000 } })
const failed = (errorMessage: string, attemptId = 'a1', more: object = {}): object => ({ DownloadFailed: {
  nodeId: 'n2', modelId: 'acme/x', attemptId, errorMessage, ...more } })
const other = { DownloadOngoing: { nodeId: 'n2', modelId: 'acme/other', attemptId: 'o',
  downloadProgress: { total: 5, downloaded: 1 } } }

/** A node that stages on the given nodes; its state goes through the given transfers to n2. */
async function staging (
  t: Parameters<typeof nodeOf>[0], nodes: StagedNode[], steps: readonly object[][], more: object = {}
): Promise<Rig> {
  let at = 0
  return await nodeOf(t, {
    'POST /store/models/acme/x/stage': (response) => {
      sendJson(response, { commandId: 'c1', message: 'staging', nodes })
    },
    'GET /state': (response) => {
      sendJson(response, stateOf({ n2: [other, ...steps[at]!] }, more))
      at = Math.min(at + 1, steps.length - 1)
    }
  })
}

const waits: StagedNode = { nodeId: 'n2', status: 'pending', error: null }
const done: StagedNode = { nodeId: 'n1', status: 'complete', error: null }

t.test('svc stage waits until all nodes are done', async (t) => {
  const node = await staging(t, [done, waits],
    [[], [pending()], [ongoing(100)], [ongoing(150)], [ongoing(620)], [completed()]])
  const ran = await node.run(['stage', 'acme/x', '--node', 'i1', 'node2', 'n2'])
  t.equal(ran.status, 0, ran.err)
  t.same(node.asked.find((one) => one.method === 'POST')!.body, { nodeIds: ['n1', 'n2'] })
  t.equal(ran.out, 'NODE   STATUS    ERROR\nnode1  complete  -\nnode2  complete  -\n')
  t.same(ran.err.trim().split('\n'), ['acme/x to node2  0 %  0 B/1000 B',
    'acme/x to node2  10 %  100 B/1000 B  10 B/s  ETA 2s',
    'acme/x to node2  62 %  620 B/1000 B  10 B/s  ETA 2s'])
  const json = await node.run(['stage', 'acme/x', '--json'])
  t.same(JSON.parse(json.out), { commandId: 'c1', message: 'staging',
    nodes: [done, { ...waits, status: 'complete', reason: null }] })
  t.equal(json.err, '')
  t.same(node.asked.filter((one) => one.method === 'POST').at(-1)!.body, { nodeIds: [] },
    'the one that is asked')
})

t.test('svc stage: on which nodes', async (t) => {
  const old = { lastSeen: { n1: '2026-01-01T00:01:00.000Z', n2: '2026-01-01T00:00:00.000Z' } }
  const bodyOf = async (more: object, ...words: string[]): Promise<unknown> => {
    const node = await staging(t, [done], [[]], more)
    t.equal((await node.run(['stage', 'acme/x', ...words])).status, 0)
    return node.asked.at(-1)!.body
  }
  t.same(await bodyOf({}, '--all'), { nodeIds: ['n1', 'n2'] })
  t.same(await bodyOf(old, '--all'), { nodeIds: ['n1'] }, 'a lost one is left out')
  t.same(await bodyOf(old, '--node', 'node2'), { nodeIds: ['n2'] }, 'a named one is not')
  t.same(await bodyOf({}, '--node', 'local'), { nodeIds: ['n1'] })
  const twins = { nodeIdentities: { n1: { friendlyName: 'twin' }, n2: { friendlyName: 'twin' } } }
  const node = await staging(t, [done], [[]], twins)
  t.match(await node.run(['stage', 'acme/x', '--node', 'twin']),
    { status: 2, err: /matches 2 nodes; .*: n1, n2/ })
  t.match(await node.run(['stage', 'acme/x', '--node', 'attic']),
    { status: 3, err: /no node "attic"; the nodes are: twin, twin/ })
  t.match(await node.run(['stage', 'acme/x', '--all', '--node', 'n1']), { status: 2, err: /be combined/ })
  t.equal((await node.run(['stage', 'x'])).status, 2)
  t.notOk(node.requests().some((one) => one.startsWith('POST')))
})

t.test('svc stage: exit statuses', async (t) => {
  const cases: [StagedNode[], object[][], number, RegExp][] = [
    [[waits], [[], [failed('it stalled')]], 1, /failed {2}it stalled/],
    [[waits], [[], [failed('needs 9 GiB', 'a1', { reason: 'no_safe_fit' })]], 6, /needs 9 GiB/],
    [[waits], [[], [failed('no_safe_fit: needs 9 GiB')]], 6, /needs 9 GiB/],
    [[{ ...waits, status: 'failed', error: 'no', reason: 'no_safe_fit' }], [[]], 6, /failed {2}no/],
    [[{ ...waits, status: 'failed', error: 'bad\u001b[2J' }, done], [[]], 1, /failed {4}bad \[2J\n/],
    [[waits], [[failed('long ago', 'a0')], [failed('long ago', 'a0')], [completed()]], 0, /complete/]
  ]
  for (const [nodes, steps, status, out] of cases) {
    const node = await staging(t, nodes, steps)
    t.match(await node.run(['stage', 'acme/x']), { status, out }, JSON.stringify([nodes, steps]))
  }
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, stateOf()) },
    'POST /store/models/acme/x/stage': (response) => { sendError(response, 404, 'model_not_found') }
  })
  t.equal((await node.run(['stage', 'acme/x'])).status, 3)
})

t.test('svc stage: how long', async (t) => {
  const node = await staging(t, [waits], [[], [ongoing(1)]])
  const looks = (): number => node.requests().filter((one) => one === 'GET /state').length
  const brief = await node.run(['stage', 'acme/x', '--wait=5'])
  t.match(brief,
    { status: 4, out: /node2 {2}downloading/, err: /continues after the timeout; svc downloads shows it/ })
  t.equal(looks(), 1 + 5, 'a look at the state per second')
  const none = await node.run(['stage', 'acme/x', '--no-wait'])
  t.match(none,
    { status: 0, out: /node2 {2}pending/, err: /the transfer continues; svc downloads shows it/ })
  t.equal(looks(), 7)
  const stop = new AbortController()
  const pace = quickPace((n) => { if (n === 100) stop.abort() })
  const long = await node.run(['stage', 'acme/x', '--wait'], { pace, signal: stop.signal })
  t.match(long, { status: 130, out: /^$/, err: /the transfer continues; svc downloads shows it/ })
  t.match(await node.run(['stage', 'acme/x', '--wait=soon']), { status: 2 })
})

t.test('what one look at the state says of a node', async (t) => {
  const look = (downloads: object[], more: Partial<StageSnapshot> = {}): StageSnapshot => ({
    state: stateOf({ n2: downloads }) as StateView, modelId: 'acme/x', attempts: new Map(), elapsedMs: 1000,
    ...more
  })
  const after = (one: StageSnapshot, node = waits): string =>
    advance({ nodes: [node], goneSince: new Map() }, one).nodes[0]!.status
  t.equal(after(look([])), 'pending')
  t.equal(after(look([completed()])), 'complete')
  const there: StagedNode = { ...waits, status: 'complete' }
  t.equal(after(look([failed('no')]), there), 'complete', 'an end is an end')
  const attempts = new Map([['n2', 'a0']])
  t.equal(after(look([completed('a0')], { attempts })), 'pending', 'may be from before')
  t.equal(after(look([completed('a0')], { attempts, elapsedMs: 5000 })), 'complete', 'it still is')
  t.equal(after(look([failed('no', 'a0')], { attempts, elapsedMs: 99_000 })), 'pending')
  t.equal(after(look([failed('no', 'a1')], { attempts })), 'failed')
  t.equal(after(look([{ Unheard: { modelId: 'acme/x' } }])), 'pending')
})

t.test('a node that goes away is given up after a minute', async (t) => {
  const alone = stateOf({}, { nodeIdentities: { n1: { friendlyName: 'node1' } } }) as StateView
  const both = stateOf() as StateView
  const at = (state: StateView, elapsedMs: number): StageSnapshot =>
    ({ state, modelId: 'acme/x', attempts: new Map(), elapsedMs })
  const play = (looks: StageSnapshot[]): string =>
    looks.reduce(advance, { nodes: [waits], goneSince: new Map<string, number>() }).nodes[0]!.status
  t.equal(play([at(alone, 1000), at(alone, 60_000)]), 'pending')
  t.equal(play([at(alone, 1000), at(alone, 61_000)]), 'failed')
  t.equal(play([at(alone, 1000), at(both, 50_000), at(alone, 61_000)]), 'pending', 'it was back meanwhile')
})
