import t from 'tap'
import { nodeOf, quickPace, sendError, sendJson, stream, type Answers, type Node } from './cli-kit.js'

const GIB = 1024 ** 3
const CHAT = 'POST /v1/chat/completions'
const ID = 'acme/chat'
const STORE = `/store/models/${ID}`

const plan = (more: object = {}): object => ({
  modelId: ID, hub: 'https://hub', commit: 'c', files: 3, totalBytes: 5 * GIB, variant: 'Q8_0',
  engine: 'gguf', weightsBytes: 5 * GIB,
  variants: [
    { name: 'Q2_K', bytes: GIB, fits: true }, { name: 'Q4_K_M', bytes: 2 * GIB, fits: true },
    { name: 'Q8_0', bytes: 5 * GIB, fits: true }
  ],
  disk: { node: 'attic', roomBytes: 100 * GIB, problem: null },
  memory: {
    neededBytes: 6 * GIB, nodes: [{ name: 'attic', neededBytes: 6 * GIB, usableBytes: 8 * GIB }],
    problem: null, engineMissing: null
  },
  unused: [], ...more
})

const TOO_LARGE = {
  neededBytes: 6 * GIB, nodes: [], problem: 'attic: needs 6.00 GiB and can use 3.00 GiB.', engineMissing: null
}

/** State of the fake node: whether the model is known, then placed, then ready. */
interface World { known: boolean, placed: boolean, ready: boolean, looks: number, fails?: boolean }

/** A node that downloads, places and starts the model on request. */
async function world (
  t: Parameters<typeof nodeOf>[0], begin: Partial<World> = {}, more: Answers = {}
): Promise<{ node: Node, at: World, did: () => string[] }> {
  const at: World = { known: false, placed: false, ready: false, looks: 0, ...begin }
  const download = (status: string): object => ({ modelId: ID, status, progress: 1, error: null, reason: null,
    downloadedBytes: 5, totalBytes: 5, bytesPerSecond: 0, etaMs: null })
  const node = await nodeOf(t, {
    [CHAT]: (response) => {
      if (at.ready) response.end(stream('Hello!'))
      else sendError(response, 404, 'no_instance')
    },
    'GET /readyz': (response) => { sendJson(response, {}) },
    [`GET /models/${ID}/card`]: (response) => {
      if (!at.known) sendError(response, 404, 'model_not_found')
      else sendJson(response, { card: { quantization: 'Q4_K_M', files: [{ path: 'm-Q4_K_M.gguf' }] } })
    },
    [`GET ${STORE}/download/plan`]: (response) => { sendJson(response, plan()) },
    [`POST ${STORE}/download`]: (response) => {
      at.known = true
      sendJson(response, download('downloading'))
    },
    [`GET ${STORE}/download/status`]: (response) => { sendJson(response, download('complete')) },
    'POST /place_instance': (response) => {
      at.placed = true
      sendJson(response, { message: 'placed on attic', instance_id: 'i1', model_card: { modelId: ID } })
    },
    'GET /state': (response) => {
      if (at.placed && ++at.looks > 2) at.ready = at.fails !== true
      sendJson(response, {
        nodeIdentities: { n1: { friendlyName: 'attic' } },
        downloads: {}, instanceFailures: at.fails !== true
          ? []
          : [{ instanceId: 'i1', errorCode: 'x', errorMessage: 'it is broken', affectedNodeIds: [] }],
        runners: { r1: { [at.ready ? 'RunnerReady' : 'RunnerLoading']: {} } },
        instances: !at.placed ? {} : { i1: { RingInstance: {
          instanceId: 'i1', shardAssignments: {
            modelId: ID, nodeToRunner: { n1: 'r1' },
            runnerToShard: { r1: { PipelineShardMetadata: { deviceRank: 0, startLayer: 0, endLayer: 1 } } }
          }
        } } }
      })
    },
    ...more
  })
  const writes = (): string[] => node.asked.filter(({ method, url }) => method === 'POST' &&
    !url.startsWith('/v1/chat')).map(({ url }) => url)
  return { node, at, did: writes }
}

t.test('svc run fetches, places and waits, and only the answer is on stdout', async (t) => {
  const { node, did } = await world(t)
  const ran = await node.run(['run', `hf.co/${ID}:Q4_K_M`, 'hi'], { pace: quickPace() })
  t.equal(ran.status, 0, ran.err)
  t.equal(ran.out, 'Hello!\n')
  t.match(ran.err, new RegExp('^acme/chat is not in the cluster; ' +
    'from https://hub: 3 files, 5.0 GiB \\(GGUF Q8_0\\)\n' +
    'store disk on attic: 100 GiB available\n' +
    'memory: the model needs at least 6.0 GiB; fits on attic \\(8.0 GiB available\\)\n' +
    'acme/chat  100 % .*\nplaced on attic\nattic: loading\n$'))
  t.same(did(), [`${STORE}/download`, '/place_instance'])
  t.match(node.asked.find(({ method, url }) => method === 'POST' && url === `${STORE}/download`)?.body,
    { variant: 'Q4_K_M' })
})

t.test('what is here is placed, what is placed is waited for', async (t) => {
  const here = await world(t, { known: true })
  t.match(await here.node.run(['run', ID, 'hi'], { pace: quickPace() }), { status: 0, out: 'Hello!\n' })
  t.same(here.did(), ['/place_instance'])
  const placed = await world(t, { known: true, placed: true })
  t.match(await placed.node.run(['run', ID, 'hi'], { pace: quickPace() }), { status: 0, out: 'Hello!\n' })
  t.same(placed.did(), [])
  const other = await placed.node.run(['run', `${ID}:Q8_0`, 'hi'])
  t.match(other,
    { status: 1, err: /here as Q4_K_M: run it without :Q8_0, or replace .* pull acme\/chat:Q8_0/ })
})

t.test('a terminal is asked first, unless it is told', async (t) => {
  const { node, did } = await world(t)
  const no = node.sit(['run', ID, 'hi'])
  await no.stderr.shows(/Download 5\.0 GiB\? \[y\/N\] /)
  no.type('n\n')
  t.match(await no.done, { status: 1, out: '', err: /nothing was downloaded/ })
  t.same(did(), [], 'nothing has begun')
  const yes = node.sit(['run', ID, 'hi', '-y'], { pace: quickPace() })
  yes.hangUp()
  t.match(await yes.done, { status: 0, out: 'Hello!\n' })
})

t.test('without the hub it ends at once: the node has retried already', async (t) => {
  let asked = 0
  const { node } = await world(t, {}, {
    [`GET ${STORE}/download/plan`]: (response) => {
      asked++
      sendError(response, 503, 'hub_unavailable')
    }
  })
  t.match(await node.run(['run', ID, 'hi']), { status: 4, out: '', err: /hub_unavailable/ })
  t.equal(asked, 1)
})

t.test('what does not fit is refused with the sum and the nearest change', async (t) => {
  const [q2, q4, q8] = [['Q2_K', 1], ['Q4_K_M', 2], ['Q8_0', 5]].map(([name, gib]) =>
    ({ name, bytes: Number(gib) * GIB, fits: false }))
  const planned = async (more: object): ReturnType<typeof world> => await world(t, {}, {
    [`GET ${STORE}/download/plan`]: (response) => { sendJson(response, plan(more)) }
  })
  const small = await planned({ memory: TOO_LARGE, variants: [q2, { ...q4, fits: true }, q8] })
  t.match(await small.node.run(['run', ID, 'hi']), { status: 6, out: '', err: new RegExp(
    'not fit in memory: attic: needs 6.00 GiB and can use 3.00 GiB.\n' +
    ' {2}smaller variant: svc run acme/chat:Q4_K_M \\(2.0 GiB\\)') })
  const tiny = await planned({ memory: TOO_LARGE, variants: [q2, q4, q8] })
  t.match(await tiny.node.run(['run', ID, 'hi']),
    { status: 6, err: /free memory or disk space: `svc ps` lists/ })
  const disk = { node: 'attic', roomBytes: 2 * GIB, problem: '5.00 GiB more do not fit.' }
  const full = await planned({ disk })
  const without = await planned({ memory: { ...TOO_LARGE, problem: null, engineMissing: 'llama.cpp' } })
  t.match(await without.node.run(['run', ID, 'hi']),
    { status: 1, err: /llama.cpp, but no node has llama-server\n {2}run `svc engine add llama.cpp`/ })
  t.match(await full.node.run(['run', ID, 'hi']),
    { status: 6, err: /not fit on the disk of attic: 5.00 GiB more do not fit[^]*:Q4_K_M \(2.0 GiB\)/ })
  t.same([...small.did(), ...tiny.did(), ...full.did(), ...without.did()], [])
})

t.test('a mistyped name is compared with those that are here, before the hub is asked', async (t) => {
  const known = { data: [{ id: ID, ready: true }, { id: 'acme/voice', ready: false }] }
  const unknown = ['acme/chta', 'Acme/Voices', 'acme/chat2', 'other/thing']
  const cards = unknown.map((id): [string, Answers[string]] => [
    `GET /models/${id}/card`, (response) => { sendError(response, 404, 'model_not_found') }
  ])
  const { node } = await world(t, {}, {
    'GET /v1/models': (response) => { sendJson(response, known) }, ...Object.fromEntries(cards)
  })
  const meant: [string, number, RegExp][] = [
    ['chta', 2, /"chta" is not a model id: expected org\/name.*; did you mean acme\/chat\?/],
    ['zzzzzzzz', 2, /expected org\/name, such as acme\/voice$/m],
    ['acme/chta', 3, /acme\/chta here; did you mean acme\/chat\?\n +from the hub: svc pull acme\/chta/],
    ['Acme/Voices:Q4', 3, /did you mean acme\/voice\?/]
  ]
  for (const [word, status, err] of meant) {
    t.match(await node.run(['run', word, 'hi']), { status, out: '', err }, word)
  }
  t.same(node.asked.filter(({ url }) => url.startsWith('/store')), [])
  for (const word of ['acme/chat2', 'other/thing']) {
    await node.run(['run', word, 'hi'])
    t.ok(node.asked.some(({ url }) => url.startsWith(`/store/models/${word}/`)), `${word} is another one`)
  }
})

t.test('Ctrl-C leaves the download and the start to the cluster', async (t) => {
  for (const begin of [{}, { known: true }]) {
    const stop = new AbortController()
    const { node } = await world(t, begin)
    const ran = await node.run(['run', ID, 'hi'],
      { signal: stop.signal, pace: quickPace(() => { stop.abort() }) })
    t.match(ran, { status: 130, out: '', err: /(the download continues|it is still starting); svc / })
  }
})

t.test('who may only ask a model is told what the model says', async (t) => {
  const { node, did } = await world(t, {}, {
    [`GET /models/${ID}/card`]: (response) => { sendError(response, 403, 'missing_grant') }
  })
  t.match(await node.run(['run', ID, 'hi']), { status: 3, err: /404 no_instance/ })
  t.same(did(), [])
})

t.test('with --wait the time to become ready is bounded', async (t) => {
  const { node, at } = await world(t, { known: true, placed: true })
  at.looks = -1000
  t.match(await node.run(['run', ID, 'hi', '--wait=5'], { pace: quickPace() }),
    { status: 4, out: '', err: /the wait timed out and it is still starting/ })
})

t.test('what was placed and cannot start is taken off again', async (t) => {
  const { node } = await world(t, { known: true, fails: true }, {
    'DELETE /instance/i1': (response) => { sendJson(response, {}) }
  })
  t.match(await node.run(['run', ID, 'hi'], { pace: quickPace() }),
    { status: 1, out: '', err: /acme\/chat cannot start: it is broken; its instance was removed/ })
  t.ok(node.asked.some(({ method, url }) => method === 'DELETE' && url === '/instance/i1'))
})
