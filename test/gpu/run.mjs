// All checks on one GPU, or with --cpu without a GPU. Started by run.sh.
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { completed, putInStore, serverUnder, startBare } from '../bench/chat/llama.mjs'
import { benchModel } from '../bench/chat/model.mjs'
import { wholeSeconds } from '../bench/chat/times.mjs'
import { processes, request, startNode } from '../bench/lib/node.mjs'

const CPU = process.argv.includes('--cpu')
const [ONE, TWO] = ['bench/gguf', 'bench/second']
const MIB = 2 ** 20
const STREAMS = CPU ? [1, 2] : [1, 16, 32, 64]
const TOKENS = CPU ? 12 : 256
const CONTEXT = 512
const binary = process.env.SVC_LLAMA_SERVER_BIN
const rows = []
let failed = 0

/** Records and prints the result of a check, with the observed value. */
function check (what, holds, seen) {
  if (!holds) failed++
  rows.push({ what, holds, seen })
  console.log(`${holds ? 'ok' : 'NOT OK'}  ${what}: ${JSON.stringify(seen)}`)
}
/** Runs a step; an exception is recorded as a failed check. */
async function step (what, work) {
  const startedAt = performance.now()
  await work().catch((error) => { check(what, false, String(error.stack ?? error).slice(0, 2000)) })
  console.log(`    ${what}: ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
}
const onCard = async (what, work) => {
  if (CPU) console.log(`skip    ${what}: it needs a card`)
  else await step(what, work)
}

/** Polls until `look` returns a value other than null; after `ms` returns its last value. */
async function until (look, ms) {
  const end = performance.now() + ms
  for (;;) {
    const found = await look()
    if (found !== null || performance.now() > end) return found
    await sleep(100)
  }
}

const cardMib = (what) => CPU ? 0 : Number(spawnSync('nvidia-smi',
  [`--query-gpu=memory.${what}`, '--format=csv,noheader,nounits'], { encoding: 'utf8' })
  .stdout.split('\n')[0])
const usedMib = () => cardMib('used')

const store = mkdtempSync(join(tmpdir(), 'svc-gpu-store-'))
const file = benchModel()
for (const model of [ONE, TWO]) putInStore(store, file, model)
process.env.PATH = `${dirname(binary)}${delimiter}${process.env.PATH}`
const before = usedMib()
const node = await startNode({ yaml: JSON.stringify({
  cluster: { discovery: false }, model_store: { hub: { enabled: false }, store_path: store },
  plugins: {
    placement: { autoplace: [] }, runners: { engine_options: { 'llama-server': { max_batch: 64 } } }
  }
}) })
const authorization = `Bearer ${readFileSync(join(node.home, 'operator.token'), 'utf8').trim()}`
const asOperator = async (method, path, body) => {
  const { status, body: bytes } = await request({
    agent: node.agent, url: node.url + path, method,
    headers: { authorization, 'content-type': 'application/json' },
    ...body === undefined ? {} : { body: JSON.stringify(body) }
  })
  return { status, answer: bytes.length === 0 ? {} : JSON.parse(bytes.toString()) }
}
async function place (model, more = {}) {
  const placed = await asOperator('POST', '/place_instance',
    { model_id: model, wait: true, timeout_seconds: 90, context_length: CONTEXT, ...more })
  if (placed.status !== 200) console.log(node.said().slice(-1000))
  return placed
}
const stop = async (id) => await asOperator('DELETE', `/instance/${id}`)
const own = async () => {
  const state = await node.json('/state')
  const { localNodeId: id, nodeSystem, nodeResources } = state
  return { system: nodeSystem[id], resources: nodeResources[id] }
}
const say = async (model, tokens = TOKENS, seed = 7) =>
  (await completed(node, { model, streams: [{ seed, tokens }] })).streams[0].times.length
const vram = async () => Object.values((await own()).system.runnerMemory).map(({ vramBytes }) => vramBytes)
const rateOf = ({ streams }) =>
  streams.reduce((sum, { times }) => sum + times.length, 0) / wholeSeconds(streams)

// The store must hash both models, which are hard links to one file, before a placement adds a third link,
// which the store would mistake for a change.
await step('store', async () => {
  const known = await until(async () => {
    const ids = (await node.json('/v1/models')).data.map(({ id }) => id)
    return [ONE, TWO].every((model) => ids.includes(model)) ? ids : null
  }, 60_000)
  check('the store has both models', known !== null, known)
})

let first
await step('detection', async () => {
  const seen = await until(async () => {
    const { system, resources } = await own()
    const ready = CPU || system.accelerators?.[0]?.vramTotalBytes > 0
    return ready ? { gpus: system.accelerators, on: resources.engineBackends['llama-server'] } : null
  }, 15_000)
  check('what the engine can use', seen?.on[0] === (CPU ? 'cpu' : 'cuda'), seen)
  const doctor = spawnSync(process.execPath, ['dist/kernel/cli/main.js', 'doctor', '--home', node.home],
    { encoding: 'utf8' }).stdout
  check('doctor names the engines', /llama-server: (cuda|cpu)/.test(doctor),
    doctor.split('\n').filter((line) => /engines|gpu/i.test(line)))
  const url = `${node.url}/metrics`
  const { status, body } = await request({ agent: node.agent, url, headers: { authorization } })
  check('gauges', CPU ? status === 200 : /svc_gpu_memory_used_bytes\{/.test(body),
    body.toString().split('\n').filter((line) => line.startsWith('svc_gpu_')))
})

await step('place', async () => {
  const { status, answer } = await place(ONE)
  check('a model is placed', status === 200 && (CPU || /on cuda/.test(answer.message)),
    answer.message ?? answer)
  first = answer.instance_id
  check('it answers', await say(ONE) > TOKENS / 2, true)
  const { supervisorRunners: [runner] } = await node.json('/v1/diagnostics/node')
  check('its runner is confined', runner.hold !== 'none', runner.hold)
  if (!CPU) {
    const seen = await until(async () => (await vram())[0] > 0 ? await vram() : null, 5000)
    check('its memory on the card is told', seen?.[0] > 100 * MIB, seen)
  }
})

await step('streams', async () => {
  const { runner } = await processes(node)
  const bare = await startBare(binary, file, runner.pid)
  node.agent.maxSockets = 128
  try {
    for (const count of STREAMS) {
      const ask = (seed) => ({
        streams: Array.from({ length: count }, (_, i) => ({ seed: seed + i, tokens: TOKENS }))
      })
      const pairs = []
      for (let round = 0; round < (CPU ? 1 : 3); round++) {
        const alone = rateOf(await bare.ask(ask(1000 * round + 1)))
        pairs.push([alone, rateOf(await completed(node, ask(1000 * round + 500)))])
      }
      const [alone, through] = pairs.sort(([a, b], [c, d]) => b / a - d / c)[Math.floor(pairs.length / 2)]
      check(`${count} streams against the bare server`, CPU || through / alone >= 0.97,
        { bare: Math.round(alone), svc: Math.round(through), ratio: Number((through / alone).toFixed(3)) })
    }
  } finally {
    await bare.stop()
  }
})

await step('killed child', async () => {
  const { runner } = await processes(node)
  const { pid } = serverUnder(runner.pid)
  const cut = say(ONE, CONTEXT - 100).catch((error) => error)
  await sleep(300)
  const killedAt = performance.now()
  process.kill(pid, 'SIGKILL')
  const error = await cut
  check('a cut stream ends at once', performance.now() - killedAt < 2000,
    String(error.message ?? error).slice(-300))
  const again = await until(async () => await say(ONE, 8).catch(() => null), 30_000)
  const seconds = (performance.now() - killedAt) / 1000
  check('and the model answers again', again !== null && (CPU || seconds < 10), { seconds })
})

await step('two models', async () => {
  const { status, answer } = await place(TWO)
  check('a second model is placed', status === 200, answer.message ?? answer)
  const both = await Promise.all([say(ONE), say(TWO)])
  check('both answer', both.every((count) => count > TOKENS / 2), both)
  if (!CPU) {
    const seen = await until(async () => {
      const all = await vram()
      return all.every((bytes) => bytes > 100 * MIB) ? all : null
    }, 5000)
    check('each has memory on the card', seen !== null, seen)
  }
  await stop(answer.instance_id)
})

const isFree = async (what) => {
  const left = await until(async () => usedMib() - before <= 64 ? usedMib() - before : null, 10_000)
  check(what, left !== null, { mib: usedMib() - before })
}
await step('stop', async () => {
  await stop(first)
  await isFree('memory is free after stop')
  const told = async () => ((await own()).system.accelerators?.[0]?.vramUsedBytes ?? 0) / MIB
  const seen = await until(async () => Math.abs(await told() - usedMib()) <= 64 ? await told() : null, 3000)
  check('and the state says so', seen !== null, { mib: seen })
})

/** Runs `work` while another program holds all but `mib` MiB of the GPU's memory. */
async function holding (mib, work) {
  const script = `import torch, sys
free, _ = torch.cuda.mem_get_info()
x = torch.empty(max(1, free - ${mib} * 2 ** 20), dtype=torch.uint8, device='cuda'); torch.cuda.synchronize()
print('held', flush=True); sys.stdin.read()`
  const child = spawn('python3', ['-c', script], { stdio: ['pipe', 'pipe', 'inherit'] })
  try {
    await new Promise((resolve, reject) => {
      child.stdout.once('data', resolve)
      child.once('exit', () => { reject(new Error('the program that holds the card exited')) })
    })
    return await work()
  } finally {
    const ended = new Promise((resolve) => { child.once('close', resolve) })
    child.kill('SIGKILL')
    await ended
  }
}
const message = ({ answer }) => answer.message ?? answer.error?.message
await onCard('no memory left', async () => {
  await holding(200, async () => {
    const placed = await place(ONE)
    check('a full card: the CPU is used, and that is said',
      placed.status === 200 && / 0 of \d+ layers on the GPU/.test(message(placed)), message(placed))
    await stop(placed.answer.instance_id)
  })
})
await onCard('larger than the card', async () => {
  // The planner reserves a tenth of the GPU's memory; the remaining 700 MiB hold only some of the layers.
  await holding(Math.ceil(cardMib('total') / 10) + 700, async () => {
    const placed = await place(ONE, { context_length: 8192 })
    check('larger than what is left: said in words, or refused with the sums',
      / \d+ of \d+ layers on the GPU|layers on the GPU need/.test(message(placed)), message(placed))
    if (placed.status === 200) {
      check('and it answers', await say(ONE, 32) > 16, true)
      await stop(placed.answer.instance_id)
    }
  })
  await isFree('memory is free at the end')
})

await node.stop()
rmSync(store, { recursive: true, force: true })
http.globalAgent.destroy()
if (process.env.RESULTS !== undefined) writeFileSync(process.env.RESULTS, JSON.stringify(rows, null, 1))
console.log(failed === 0 ? `all ${rows.length} hold` : `${failed} of ${rows.length} do not hold`)
process.exitCode = failed === 0 ? 0 : 1
