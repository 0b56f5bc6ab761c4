/** Verbs offer to download llama.cpp if their model needs it; the node and the release server are fakes. */
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startTicks } from '../../../kernel/boot/home.js'
import { buildsOf } from '../../runners/service.js'
import chat from '../../chat/index.js'
import { archiveOf, homeAt, nameOf, startReleases, type Served } from './builds-kit.js'
import { nodeOf, sendError, sendJson, stream, type Answers, type Node } from '../../chat/test/cli-kit.js'
import { folder } from './llama-kit.js'
import { KNOWN_TAG } from '../builds/release.js'

const ID = 'acme/gguf'
const MISSING = { engine: 'llama-server' }
const BACKEND = process.platform === 'darwin' && process.arch === 'arm64' ? 'metal' : 'cpu'
const skip = readdirSync('/dev').some((name) => /^nvidia\d+$/.test(name)) &&
  'a build for CUDA would be fetched'

interface World { node: Node, home: string, asked: [string, string][], placed: () => number }

/** Starts a release server, and a fake node that refuses its model until the home has a llama.cpp build. */
async function world (t: Test, served: Partial<Served> = {}, more: Answers = {}): Promise<World> {
  const { url: releases, asked } = await startReleases(t,
    { [KNOWN_TAG]: { [nameOf(KNOWN_TAG)]: { bytes: archiveOf(KNOWN_TAG, { weight: 4096 }), ...served } } })
  const home = homeAt(folder(t), releases)
  const there = (): boolean => buildsOf(home, 'llama.cpp').length > 0
  let looks = 0
  let placed = 0
  const node = await nodeOf(t, {
    'POST /v1/chat/completions': (response) => {
      if (placed > 0) response.end(stream('Hello!'))
      else sendError(response, 404, 'no_instance')
    },
    'GET /readyz': (response) => { sendJson(response, {}) },
    [`GET /models/${ID}/card`]: (response) => {
      sendJson(response, { card: { quantization: 'Q4_K_M', files: [], tasks: ['chat'] } })
    },
    'POST /place_instance': (response) => {
      // A node takes a moment to detect a new build.
      if (!there() || ++looks < 2) sendError(response, 400, 'engine_missing', MISSING)
      else {
        placed++
        sendJson(response, { message: 'placed on attic', instance_id: 'i1', model_card: { modelId: ID } })
      }
    },
    'GET /state': (response) => {
      sendJson(response, {
        nodeIdentities: {}, downloads: {}, instanceFailures: [], runners: { r1: { RunnerReady: {} } },
        instances: placed === 0 ? {} : { i1: { RingInstance: {
          instanceId: 'i1', shardAssignments: {
            modelId: ID, nodeToRunner: { n1: 'r1' }, runnerToShard: { r1: {
              PipelineShardMetadata: { deviceRank: 0, startLayer: 0, endLayer: 1 }
            } }
          }
        } } }
      })
    },
    ...more
  }, chat)
  mkdirSync(join(home, 'run'))
  writeFileSync(join(home, 'run', 'node.json'), JSON.stringify({
    format: 1, url: node.url, processes: [{ pid: process.pid, startTicks: startTicks(process.pid) }]
  }))
  return { node, home, asked, placed: () => placed }
}

const QUESTION = new RegExp(`The model needs llama\\.cpp\\. Download llama\\.cpp ${KNOWN_TAG} ` +
  `for ${BACKEND} ` + '\\(\\d+(\\.\\d+)? KiB\\)\\? \\[Y/n\\] ')

t.test('a terminal is asked, and an empty line is a yes', { skip, timeout: 30_000 }, async (t) => {
  const { node, home, asked, placed } = await world(t)
  const sitting = node.sit(['run', ID, 'hi', '--home', home])
  await sitting.stderr.shows(QUESTION)
  t.same(asked, [], 'nothing is fetched before')
  sitting.type('\n')
  const ran = await sitting.done
  t.match(ran, { status: 0, out: 'Hello!\n' })
  t.match(ran.err, new RegExp(`llama\\.cpp ${KNOWN_TAG}-${BACKEND} is installed; it computes on Test0`))
  t.match(buildsOf(home, 'llama.cpp'), [{ tag: KNOWN_TAG, backend: BACKEND }])
  t.equal(placed(), 1)
})

t.test('a no leaves it at the refusal', { skip, timeout: 30_000 }, async (t) => {
  for (const answer of ['n\n', null]) {
    const { node, home, asked } = await world(t)
    const sitting = node.sit(['run', ID, 'hi', '--home', home])
    await sitting.stderr.shows(QUESTION)
    if (answer === null) sitting.hangUp()
    else sitting.type(answer)
    t.match(await sitting.done, { status: 1, out: '', err: /400 engine_missing/ })
    t.same(asked, [])
  }
})

t.test('without a terminal it takes --yes', { skip, timeout: 30_000 }, async (t) => {
  const { node, home, asked } = await world(t)
  t.match(await node.run(['run', ID, 'hi', '--home', home]), { status: 1, err: /400 engine_missing/ })
  t.same(asked, [])
  const ran = await node.run(['run', ID, 'hi', '--yes', '--home', home])
  t.match(ran, { status: 0, out: 'Hello!\n', err: new RegExp(`downloading llama\\.cpp ${KNOWN_TAG} for`) })
})

t.test('a node of another machine is left alone', { skip, timeout: 30_000 }, async (t) => {
  const { node, asked } = await world(t)
  t.match(await node.run(['run', ID, 'hi', '--yes', '--home', folder(t)]),
    { status: 1, err: /400 engine_missing/ })
  t.same(asked, [])
})

t.test('what cannot be fetched is said, and nothing is placed', { skip, timeout: 30_000 }, async (t) => {
  const wrong = await world(t, { digest: '0'.repeat(64) })
  t.match(await wrong.node.run(['run', ID, 'hi', '--yes', '--home', wrong.home]),
    { status: 1, out: '', err: /does not have the expected digest/ })
  t.equal(wrong.placed(), 0)
  const away = await world(t)
  writeFileSync(join(away.home, 'svc.yaml'), 'engines:\n  url: https://127.0.0.1:9/none\n')
  t.match(await away.node.run(['run', ID, 'hi', '--yes', '--home', away.home]),
    { status: 1, out: '', err: /llama\.cpp cannot be downloaded: https:..127\.0\.0\.1:9[^]* engine_missing/ })
})
