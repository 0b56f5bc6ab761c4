import { join } from 'node:path'
import t from 'tap'
import { card, GIB, runnersAre } from './kit.js'
import { bodyOf, stateCard } from '../../runners/service.js'
import type { RunnerMemory } from '../cli/state.js'
import { instanceOn, nodeOf, quickPace, seenState, sendError, sendJson } from './verb-kit.js'

const A = '11111111-1111-4111-8111-111111111111'
const B = '22222222-2222-4222-8222-222222222222'
const placed = {
  message: 'acme/chat is placed on n1, n2. 2 nodes.', command_id: 'c', instance_id: A,
  model_card: stateCard(card('acme/chat'))
}

t.test('svc place waits and shows the state', async (t) => {
  const state = seenState()
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, state) },
    'POST /place_instance': (response) => {
      state.instances[A] = instanceOn(A, 'acme/chat', ['id-n1', 'id-n2'])
      sendJson(response, placed)
    }
  })
  const steps: (() => void)[] = [
    () => {
      state.downloads = { 'id-n2': [
        {
          DownloadOngoing: { modelId: 'acme/chat', downloadProgress: { total: 200, downloaded: 90 } }
        } as never
      ] }
      runnersAre(state, A, { RunnerLoading: { layersLoaded: 2, totalLayers: 10 } })
    },
    () => { state.downloads = {} },
    () => {
      runnersAre(state, A, { RunnerLoading: { layersLoaded: 32_944_128, totalLayers: 98_362_432 } })
    },
    () => { runnersAre(state, A, { RunnerReady: {} }) }
  ]
  const ran = await node.run(['place', 'acme/chat', '--min-nodes', '2', '--exclude', 'n3', 'n4'],
    { pace: quickPace(() => { steps.shift()?.() }) })
  t.match(ran, { status: 0, out: `${A}\n` })
  t.equal(ran.err, [
    'acme/chat is placed on n1, n2. 2 nodes.',
    'n1: waiting for its runner; n2: waiting for its runner',
    'n1: loading (2 of 10); n2: copying its files (45%)',
    'n1: loading (2 of 10); n2: loading (2 of 10)',
    'n1: loading 31 of 94 MiB; n2: loading 31 of 94 MiB',
    'ready; try it: svc run acme/chat "hello"', ''
  ].join('\n'))
  t.strictSame(node.asked.find(({ method }) => method === 'POST')!.body, {
    model_id: 'acme/chat', sharding: 'Pipeline', min_nodes: 2, excluded_nodes: ['n3', 'n4'], force: false
  })
  const json = await node.run(
    ['place', 'acme/chat', '--json', '--force', '--no-wait', '--sharding', 'TENSOR', '--meta', 'llamarpc'])
  t.strictSame(JSON.parse(json.out), placed, 'the body of the route')
  t.match(json, { status: 0, err: /it is starting; svc ps/ })
  t.match(node.asked.at(-1)!.body, { force: true, sharding: 'Tensor', instance_meta: 'LlamaRpc' })
  const file = join(t.testdir({ 'a.jinja': '{{ messages }}' }), 'a.jinja')
  await node.run(['place', 'acme/chat', '--no-wait', '--chat-template', file])
  t.match(node.asked.at(-1)!.body, { chat_template: '{{ messages }}' })
  t.match(await node.run(['place', 'acme/chat', '--chat-template', `${file}x`]),
    { status: 2, err: /--chat-template .*x: ENOENT/ })
})

t.test('svc place: how waiting can end', async (t) => {
  const state = seenState()
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, state) },
    'POST /place_instance': (response) => {
      state.instances[A] = instanceOn(A, 'acme/chat', ['id-n1'])
      sendJson(response, placed)
    }
  })
  const place = async (step: () => void, ...more: string[]): ReturnType<typeof node.run> =>
    await node.run(['place', 'acme/chat', ...more], { pace: quickPace(step) })
  t.match(await place(() => {}, '--wait=3'), { status: 4, out: `${A}\n`, err: /the wait timed out/ })
  t.match(await place(() => {}), { status: 4, err: /the wait timed out and it is still starting; svc ps/ },
    'nothing moves for minutes')
  t.match(await place(() => {
    state.instanceFailures = [
      { instanceId: A, errorCode: 'x', errorMessage: 'no \u001blibrary', affectedNodeIds: ['id-n1'] }
    ]
  }), { status: 1, out: '', err: /chat cannot start: no {2}library; svc why acme\/chat .*svc stop 1111/ })
  state.instanceFailures = []
  t.match(await place(() => { state.instances = {} }), { status: 1, err: /the instance \S+ was removed\n/ })
  const stop = new AbortController()
  const cut = await node.run(['place', 'acme/chat'],
    { signal: stop.signal, pace: quickPace(() => { stop.abort() }) })
  t.match(cut, { status: 130, err: /it is still starting/ })
})

const details = {
  nodes: [{
    nodeId: 'id-n1', name: 'n1', backend: 'cpu', startLayer: 0, endLayer: 10, shareBytes: 10 * GIB,
    bufferBytes: 3 * GIB, cacheBytes: GIB / 2,
    fixedBytes: GIB / 4, neededBytes: 13.75 * GIB, usableBytes: 8 * GIB,
    freeBytes: 9 * GIB, limitBytes: 12 * GIB, reservedBytes: GIB
  }],
  suggestions: [
    { kind: 'stop', instanceId: B, text: `stop instance ${B} (acme/x)` },
    { kind: 'min_nodes', minNodes: 2, text: 'set min_nodes to 2' },
    { kind: 'sharding', sharding: 'Tensor', text: 'set sharding to Tensor' },
    { kind: 'slots', slots: 4, text: 'set slots to 4' },
    { kind: 'free', nodeId: 'id-n1', bytes: 1, text: 'free 5.80 GiB of memory on n1' }
  ]
}

t.test('svc place shows the arithmetic of what does not fit, and the ways out', async (t) => {
  let refusal: [number, string, object] = [400, 'insufficient_memory', details]
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, seenState()) },
    'POST /place_instance': (response) => { sendError(response, ...refusal) },
    'GET /instance/placement': (response) => { sendError(response, ...refusal) }
  })
  for (const more of [[], ['--dry-run']]) {
    const ran = await node.run(['place', 'acme/chat', ...more])
    t.equal(ran.status, 6)
    t.match(ran.err, 'n1 (cpu, layers 0 to 10): needs 13.8 GiB = weights 10.0 GiB + KV cache 512 MiB + ' +
    'buffers 3.0 GiB + process 256 MiB, can use 8.0 GiB (the lesser of 9.0 GiB free and ' +
    '12.0 GiB allowed, less 1.0 GiB of models that load): 5.8 GiB too little\n5 ways to make it fit:\n' +
    `  stop instance ${B} (acme/x): svc stop ${B}\n` +
    '  set min_nodes to 2: svc place acme/chat --min-nodes 2\n' +
    '  set sharding to Tensor: svc place acme/chat --sharding tensor\n' +
    '  set slots to 4: svc place acme/chat --slots 4\n' +
    '  free 5.80 GiB of memory on n1\n')
  }
  const repeats = await node.run(['place', 'acme/chat', '--slots', '8', '--exclude', 'n3', 'a b',
    '--make-room', '--no-wait', '--ttl', '60'])
  const begin = ': svc place acme/chat --exclude n3 \'a b\''
  t.match(repeats.err, `${begin} --slots 8 --ttl 60 --make-room --min-nodes 2\n`)
  t.match(repeats.err, `${begin} --ttl 60 --make-room --slots 4\n`)
  const cases: [number, string, number][] = [
    [400, 'model_unknown', 3], [400, 'no_connected_cycle', 1], [400, 'no_source', 1],
    [503, 'info_pending', 4], [401, 'unauthenticated', 5], [400, 'invalid_request', 2]
  ]
  for (const [status, reason, exit] of cases) {
    refusal = [status, reason, {}]
    const ran = await node.run(['place', 'acme/chat'])
    t.match(ran, { status: exit, err: new RegExp(`it is ${reason}`) }, reason)
  }
  const pinned = (): unknown => node.asked.findLast(({ method }) => method === 'POST')?.body
  for (const name of ['n2', 'id-n2']) {
    await node.run(['place', 'acme/chat', '--node', name])
    t.match(pinned(), { excluded_nodes: ['id-n1'] }, name)
  }
  t.match(await node.run(['place', 'acme/chat', '--node', 'n3']),
    { status: 3, err: 'no node "n3"; the nodes are: n1, n2' })
  const wrong = [['x'], ['acme/..x'], ['acme/chat', '--min-nodes', '0'], ['acme/chat', '--min-nodes', 'two'],
    ['acme/chat', '--sharding', 'rows'], ['acme/chat', '--meta', 'star'], ['acme/chat', '--ctx', '1'],
    ['acme/chat', '--ctx', '8k']]
  for (const words of wrong) t.equal((await node.run(['place', ...words])).status, 2, words.join(' '))
})

t.test('svc place --dry-run --explain', async (t) => {
  const ranks = [{ nodeId: 'id-n2', backend: 'cpu', startLayer: 0, endLayer: 10, shareBytes: 10 * GIB,
    neededBytes: 13 * GIB, usableBytes: 32 * GIB }]
  const row = { sharding: 'Pipeline', min_nodes: 1, error: null, reason: null,
    details: { why: '1 node, the fewest.', ranks } }
  const two = { ...row, min_nodes: 2, details: { why: '2 nodes.', ranks: [...ranks, ...ranks] } }
  const instance = instanceOn(A, 'acme/chat', ['id-n2'])
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, seenState()) },
    'GET /instance/previews': (response) => { sendJson(response, { previews: [row, two] }) },
    'GET /instance/placement': (response) => { sendJson(response, instance) }
  })
  const ran = await node.run(['place', 'acme/chat', '--dry-run', '--explain', '--exclude', 'n1'])
  t.equal(ran.out, 'RANK  NODE  LAYERS\n0     n2    0 to 10\n')
  t.equal(ran.err, '1 node, the fewest.\n' +
  'n2 (cpu, layers 0 to 10): needs 13.0 GiB for 10.0 GiB of weights, can use 32.0 GiB\n' +
  'nothing was placed; repeat without --dry-run to place it\n')
  t.strictSame(node.asked.map(({ url }) => url), ['/state',
    '/instance/previews?model_id=acme%2Fchat&excluded_node_ids=n1',
    '/instance/placement?model_id=acme%2Fchat&sharding=Pipeline&min_nodes=1&excluded_node_ids=n1'])
  const wide = await node.run(['place', 'acme/chat', '--dry-run', '--explain', '--min-nodes', '2'])
  t.match(wide.err, /^2 nodes/)
  t.strictSame(JSON.parse((await node.run(['place', 'acme/chat', '--dry-run', '--json'])).out), instance)
})

t.test('svc place --dry-run says what would be unloaded', async (t) => {
  let unloads: object[] = [{ instanceId: B, modelId: 'acme/x', idleSeconds: 75.4, bytes: 2 * GIB }]
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, seenState()) },
    'POST /place_instance': (response) => { sendJson(response, { message: 'm', instance_id: B }) },
    'GET /instance/placement': (response) => { sendError(response, 400, 'insufficient_memory', { unloads }) }
  })
  t.match((await node.run(['place', 'acme/chat', '--dry-run'])).err,
    `  acme/x (${B}), 2.0 GiB, without a request for 75 s\n`)
  unloads = []
  t.match((await node.run(['place', 'acme/chat', '--dry-run'])).err, /--make-room would wait/)
  await node.run(['place', 'acme/chat', '--make-room', '--no-wait'])
  t.match(node.asked.at(-1), { body: { model_id: 'acme/chat', make_room: true } })
})

t.test('svc ps', async (t) => {
  const state = seenState()
  const node = await nodeOf(t, { 'GET /state': (response) => { sendJson(response, state) } })
  t.match(await node.run(['ps']), { status: 0, out: /^$/, err: /place one with `svc place/ })
  t.strictSame(JSON.parse((await node.run(['ps', '--json'])).out), { instances: [] })
  const C = '33333333-3333-4333-8333-333333333333'
  const all: [string, string, string[]][] =
    [[B, 'b/b', ['id-n1', 'id-n2']], [A, 'a/a', ['id-n1']], [C, 'c/c', ['id-n3']]]
  for (const [id, model, nodes] of all) state.instances[id] = instanceOn(id, model, nodes)
  runnersAre(state, A, { RunnerRunning: {} })
  runnersAre(state, B, { RunnerLoading: { layersLoaded: 1, totalLayers: 4 } })
  state.instanceFailures = [{ instanceId: C, errorCode: 'x', errorMessage: 'gone', affectedNodeIds: [] }]
  const memory = (residentBytes: number | null, estimatedBytes: number): RunnerMemory =>
    ({ residentBytes, estimatedBytes })
  const [runnerA, runnerB] = [A, B].map((id) =>
    bodyOf(state.instances[id]!).shardAssignments.nodeToRunner['id-n1']!) as [string, string]
  state.nodeSystem = {
    'id-n1': {
      accelerators: [],
      runnerMemory: { [runnerA]: memory(2 * GIB, 3 * GIB), [runnerB]: memory(null, GIB) }
    }
  }
  const ran = await node.run(['ps'])
  t.equal(ran.out,
    'INSTANCE                              MODEL  NODES  STATE             MEM      COUNTED  CONTEXT\n' +
    `${A}  a/a    n1     ready             2.0 GiB  3.0 GiB  4096\n` +
    `${B}  b/b    n1,n2  loading (1 of 4)  -        1.0 GiB  4096\n` +
    `${C}  c/c    id-n3  failed: gone      -        -        4096\n`)
  t.match(JSON.parse((await node.run(['ps', '--json'])).out), { instances: [
    { instanceId: A, modelId: 'a/a', state: 'ready', error: null, memoryBytes: 10 * GIB,
      residentBytes: 2 * GIB, estimatedBytes: 3 * GIB, contextLength: 4096,
      nodes: [{ nodeId: 'id-n1', name: 'n1', state: 'RunnerRunning' }] },
    { state: 'starting', nodes: [{ state: 'RunnerLoading' }, { state: 'RunnerLoading' }] },
    { state: 'failed', error: 'gone' }
  ] })
  const told = state.nodeSystem['id-n1'] as { runnerMemory?: Record<string, RunnerMemory> }
  told.runnerMemory![runnerA] = { ...memory(2 * GIB, 3 * GIB), vramBytes: GIB }
  t.match((await node.run(['ps'])).out,
    /MEM +VRAM +COUNTED.*\n.* 2\.0 GiB +1\.0 GiB +3\.0 GiB.*\n.* - +- +1\.0 GiB/)
  runnersAre(state, A, { RunnerIdle: { waitsFor: {
    reason: 'store_unreachable', message: 'n2 is lost', tries: 2,
    since: '2026-01-01T00:00:00.000Z', nextTryAt: '2026-01-01T00:00:04.000Z'
  } } })
  const since = '2026-01-01T00:00:00.000Z'
  runnersAre(state, B, { RunnerIdle: { waitsFor: {
    reason: 'rank_away', message: 'the rank on id-n2 is not ready', since
  } } })
  t.match((await node.run(['ps'])).out,
    /waiting since 2026-01-01T00:00:00.000Z: the rank on id-n2 is not ready +- /,
    'and nothing is said of tries')
  runnersAre(state, C, { RunnerFailed: { errorMessage: 'gone', nextTryAt: since } })
  t.match((await node.run(['ps'])).out, /failed: gone; next try at 2026-01-01T00:00:00.000Z /)
  const failed = { modelId: 'a/a', attemptId: 'x', errorMessage: 'lost' }
  state.downloads = { 'id-n1': [{ DownloadFailed: failed }] }
  t.match((await node.run(['ps'])).out, new RegExp('waiting since 2026-01-01T00:00:00.000Z: n2 is lost. ' +
    'Tried 2 times, next try at 2026-01-01T00:00:04.000Z'), 'a failed transfer is not the end')
})

t.test('svc stop', async (t) => {
  const state = seenState()
  const reset = (): void => {
    state.instances = {
      [A]: instanceOn(A, 'acme/chat', ['id-n1']), [B]: instanceOn(B, 'acme/chat', ['id-n2'])
    }
  }
  reset()
  let refused = false
  const remove = (id: string) => (response: Parameters<typeof sendJson>[0]): void => {
    if (refused && id === B) sendError(response, 503, 'no_quorum')
    else if (state.instances[id] === undefined) sendError(response, 404, 'instance_not_found')
    else {
      delete state.instances[id]
      sendJson(response, { message: 'x', command_id: 'c', instance_id: id })
    }
  }
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, state) },
    [`DELETE /instance/${A}`]: remove(A), [`DELETE /instance/${B}`]: remove(B)
  })
  t.match(await node.run(['stop', '1111']),
    { status: 0, out: 'stopped 1 instance of acme/chat\n', err: 'x\n' })
  reset()
  t.match(await node.run(['stop', 'acme/chat'], { typed: 'n\n' }),
    { status: 1, out: '', err: /n1\n.*n2\nStop 2 instances\? \[y\/N\] nothing was stopped/ })
  t.equal(Object.keys(state.instances).length, 2)
  t.match(await node.run(['stop', 'acme/chat'], { typed: '' }), { status: 1 }, 'no answer is a no')
  t.match(await node.run(['stop', 'acme/chat'], { typed: 'y\n' }),
    { status: 0, out: 'stopped 2 instances of acme/chat\n' })
  reset()
  t.match(await node.run(['stop', '-y', 'acme/chat'], { typed: '' }), { status: 0 }, 'not asked with -y')
  reset()
  const json = await node.run(['stop', 'acme/chat', '--json'])
  t.strictSame(JSON.parse(json.out), { instances: [A, B].map((instanceId) =>
    ({ instanceId, modelId: 'acme/chat', stopped: true, message: 'x', error: null })) })
  reset()
  refused = true
  t.match(await node.run(['stop', 'acme/chat']), {
    status: 4, out: 'stopped 1 instance of acme/chat\n', err: /2222.*no_quorum[^]*1 of 2 instances could not/
  })
  t.match(await node.run(['stop', B]), { status: 4, out: '', err: /no_quorum/ })
  t.match(await node.run(['stop', 'acme/none']), { status: 3, err: /svc ps/ })
  t.match(await node.run(['stop', 'ffff']), { status: 3 })
  state.instances['2222aaaa'] = instanceOn('2222aaaa', 'a/a', ['id-n1'])
  t.match(await node.run(['stop', '2222']), { status: 2, err: /matches 2 instance ids/ })
})

const waits = (instanceId: string, modelId: string): object => ({
  instanceId, modelId, origin: 'request', replaces: null, since: '', reason: 'insufficient_memory',
  message: 'n1: too little.', intent: { ttlSeconds: 60 }
})

t.test('svc ps shows what is being stopped, what waits, and what was moved', async (t) => {
  const state = seenState()
  state.instances = { [A]: instanceOn(A, 'a/a', ['id-n1']), [B]: instanceOn(B, 'b/b', ['id-n1']) }
  runnersAre(state, A, { RunnerReady: {} })
  runnersAre(state, B, { RunnerReady: {} })
  bodyOf(state.instances[A]!).drainUntil = '2026-01-01T00:00:00.000Z'
  bodyOf(state.instances[B]!).placement = { ttlSeconds: 300, replaces: 'old' } as never
  state.waitingInstances = { w: waits('w', 'c/c'), [A]: waits(A, 'a/a') } as never
  const node = await nodeOf(t, { 'GET /state': (response) => { sendJson(response, state) } })
  t.equal((await node.run(['ps'])).out.replace(/ +/g, ' '), [
    'INSTANCE MODEL NODES STATE MEM COUNTED CONTEXT TTL EARLIER ID',
    `${A} a/a n1 draining until 2026-01-01T00:00:00.000Z - - 4096 - -`,
    `${B} b/b n1 ready - - 4096 300 s old`,
    'w c/c - WAITING: n1: too little. - - - 60 s -', ''
  ].join('\n'))
  t.match(JSON.parse((await node.run(['ps', '--json'])).out), { instances: [
    { state: 'draining', drainUntil: '2026-01-01T00:00:00.000Z', ttlSeconds: null },
    { state: 'ready', replaces: 'old', ttlSeconds: 300, drainUntil: null },
    { instanceId: 'w', state: 'waiting', error: 'n1: too little.', nodes: [] }
  ] })
})

t.test('svc stop --now, --wait, and of what waits', async (t) => {
  const state = seenState()
  const reset = (): void => { state.instances = { [A]: instanceOn(A, 'acme/chat', ['id-n1']) } }
  reset()
  state.waitingInstances = { [B]: waits(B, 'acme/other') } as never
  const answer = (id: string) => (response: Parameters<typeof sendJson>[0]): void => {
    sendJson(response, { message: `${id.slice(0, 4)} ends`, command_id: 'c', instance_id: id })
  }
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, state) },
    [`DELETE /instance/${A}`]: answer(A), [`DELETE /instance/${B}`]: answer(B)
  })
  t.match(await node.run(['stop', 'acme/other']), { status: 0, out: 'stopped 1 instance of acme/other\n' })
  t.match(await node.run(['stop', 'acme/chat', '--now']), { status: 0, err: '1111 ends\n' })
  t.equal(node.asked.at(-1)!.url, `/instance/${A}?drain_seconds=0`)
  const late = await node.run(['stop', 'acme/chat', '--wait=2'])
  t.ok(node.asked.some(({ url }) => url === `/instance/${A}?drain_seconds=30`))
  t.match(late, { status: 4, err: /the wait timed out: 1 instance with open requests left; see svc ps/ })
  const gone = await node.run(['stop', 'acme/chat', '--wait'], {
    pace: quickPace((n) => { if (n === 3) state.instances = {} })
  })
  t.match(gone, { status: 0, out: 'stopped 1 instance of acme/chat\n', err: /^$/ })
})

t.test('svc place follows an instance that is placed anew', async (t) => {
  const state = seenState()
  const node = await nodeOf(t, {
    'GET /state': (response) => { sendJson(response, state) },
    'POST /place_instance': (response) => {
      state.instances = { [A]: instanceOn(A, 'acme/chat', ['id-n1']) }
      sendJson(response, placed)
    }
  })
  const steps: (() => void)[] = [
    () => {
      state.instances = {}
      state.waitingInstances = { [A]: waits(A, 'acme/chat') } as never
    },
    () => {
      state.waitingInstances = {}
      state.instances = { [B]: instanceOn(B, 'acme/chat', ['id-n2']) }
      bodyOf(state.instances[B]!).placement = { replaces: A } as never
    },
    () => { runnersAre(state, B, { RunnerReady: {} }) }
  ]
  const ran = await node.run(['place', 'acme/chat', '--ttl', '60'],
    { pace: quickPace(() => { steps.shift()?.() }) })
  t.match(ran, { status: 0, out: `${B}\n` })
  t.match(ran.err,
    `waiting for a node: n1: too little.\nit was placed again as ${B}\nn2: waiting for its runner\nready;`)
  t.match(node.asked.find(({ method }) => method === 'POST')!.body, { ttl_seconds: 60 })
  const up = await node.run(['place', 'acme/chat', '--wait=2'], { pace: quickPace(() => {
    state.instances = {}
    state.waitingInstances = { [A]: waits(A, 'acme/chat') } as never
  }) })
  t.match(up, { status: 4, err: /the wait timed out; it is waiting for a node: n1: too little/ })
  for (const ttl of ['0', 'x', '1.5']) {
    t.equal((await node.run(['place', 'acme/chat', '--ttl', ttl])).status, 2, ttl)
  }
})
