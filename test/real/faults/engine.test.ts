/** Real weights on one node: clients leave, engines are killed, memory and disk run out. */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { startHub } from '../../../plugins/staging/test/hub-kit.js'
import { ask, refusal } from '../../node/http.js'
import { folder, sparing, startNode, svc, until, type TestNode } from '../../node/kit.js'
import { alive, descendants, rss } from '../../node/proc.js'
import { answerOf, DRIVERS, pullAndPlace, serverProgram, startWith } from '../weights-kit.js'
import { folderOf, ggufOf, withoutWeights } from '../weights.js'
import {
  CONTEXT, counting, counts, endWithin, engines, loadOf, MODEL, type End, type Stream
} from './kit.js'

const program = serverProgram()
const skip = 'missing' in program ? program.missing : withoutWeights(['smollm2', 'gemma3'])
const server = 'path' in program ? program.path : ''
const SLOTS = 8
/** Seconds within which an engine stops for clients that left, and streams of a dead one end. */
const BOUND = 15
/** Share of a core below which a process counts as idle. */
const IDLE = 0.1

interface Trace { taskId: string, outcome: string }

const streams = async (node: TestNode, more: Record<string, unknown> = {}): Promise<Stream[]> =>
  await Promise.all(Array.from({ length: SLOTS }, async () => await counting(node, more)))

const runningTasks = async (node: TestNode): Promise<number> => {
  const { tasks } = (await ask(node, '/state')).json as { tasks: Record<string, { Inference?: object }> }
  return Object.values(tasks).filter(({ Inference: task }) =>
    (task as { status?: string } | undefined)?.status === 'Running').length
}

/** Clients of all slots leave in the middle: the engine stops, and the next clients have slots. */
async function leave (t: Test, node: TestNode): Promise<void> {
  const traced = await ask(node, '/v1/tracing', { method: 'PUT', body: { enabled: true } })
  t.equal(traced.status, 200, traced.text)
  const opened = await streams(node)
  const [engine] = engines(node)
  t.ok(await loadOf(engine!) > IDLE, 'the engine works')
  for (const stream of opened) stream.abort()
  await until('the engine to be idle', async () => await loadOf(engine!, 500) < IDLE, { seconds: BOUND })
  t.equal(await runningTasks(node), 0, 'no task is left')
  for (const stream of opened) {
    const text = stream.text()
    t.ok(text.length > 0 && (text.length < 8 || counts(text)), text)
  }
  const outcomes = async (): Promise<(string | undefined)[]> => {
    const { traces } = (await ask(node, '/v1/traces?limit=100')).json as { traces: Trace[] }
    return opened.map((stream) => traces.find(({ taskId }) => taskId === stream.taskId)?.outcome)
  }
  await until('the traces', async () => !(await outcomes()).includes(undefined))
  t.same(new Set(await outcomes()), new Set(['cancelled']))
  const next = await Promise.all(Array.from({ length: SLOTS }, async () =>
    await counting(node, { max_tokens: 8 })))
  for (const stream of next) {
    t.match(await endWithin(stream, 60), { whole: true, finish: 'length', tokens: 8 })
  }
  t.same(engines(node), [engine], 'by the same process')
}

/** Checks that every stream ended once with a retryable error, none as if its text were whole. */
function checkLost (t: Test, ends: readonly (End | 'hangs')[]): void {
  for (const end of ends) {
    const isRight = end !== 'hangs' && !end.whole && end.finish === null &&
      end.errors.length === 1 && end.errors[0]!.reason === 'instance_lost' && end.errors[0]!.retryable
    t.ok(isRight, JSON.stringify(end))
  }
}

/** `victim` is killed under streams of all slots; then the model answers again without an operator. */
async function killed (t: Test, node: TestNode, victim: number, text: string): Promise<void> {
  const below = [victim, ...descendants(victim)]
  const opened = await streams(node)
  process.kill(victim, 'SIGKILL')
  checkLost(t, await Promise.all(opened.map(async (stream) => await endWithin(stream, BOUND))))
  await until('its processes are gone', () => below.every((pid) => !alive(pid)))
  await until('the same answer', async () =>
    (await answerOf(node, { model: MODEL, prompt: '1, 2, 3,', max_tokens: 12 })).choice?.text === text,
  { seconds: 90, everyMs: 250 })
}

for (const driver of DRIVERS) {
  t.test(`by the ${driver}`, { skip, timeout: 900_000 }, async (t) => {
    const node = await startWith(t, driver, server)
    await pullAndPlace(t, node, folderOf('smollm2'), MODEL, ['--ctx', `${CONTEXT}`, '--slots', `${SLOTS}`])
    await t.test('clients leave in the middle', async (t) => { await leave(t, node) })
    const { choice } = await answerOf(node, { model: MODEL, prompt: '1, 2, 3,', max_tokens: 12 })
    await t.test('kill -9 of the engine', async (t) => {
      await killed(t, node, engines(node)[0]!, choice!.text!)
    })
    if (driver === 'server') {
      await t.test('kill -9 of the runner of llama-server', async (t) => {
        await killed(t, node, node.runners()[0]!, choice!.text!)
      })
    }
    await node.kill()
  })
}

/**
 * What `svc` reads as the memory of a machine with `mib` MiB, of which the processes of the node use their
 * resident memory. Returns the command prefix.
 */
function machineOf (t: Test, mib: number, processes: () => number[]): string[] {
  const path = join(folder(t), 'meminfo')
  const real = readFileSync('/proc/meminfo', 'utf8')
  const write = (): void => {
    const used = processes().reduce((sum, pid) => sum + rss(pid), 0) / 1024
    const lines = { MemTotal: mib * 1024, MemAvailable: Math.max(0, Math.round(mib * 1024 - used)) }
    // Overwritten in place, because a renamed file would not show at the mount.
    writeFileSync(path, Object.entries(lines).reduce((text, [name, kib]) =>
      text.replace(new RegExp(`^${name}:.*$`, 'm'), `${name}: ${kib} kB`), real))
  }
  write()
  const timer = setInterval(write, 200)
  t.teardown(() => { clearInterval(timer) })
  return ['unshare', '-m', 'sh', '-c', 'mount --bind "$0" /proc/meminfo && exec "$@"', path]
}

const isRoot = process.getuid?.() === 0 && process.platform === 'linux' &&
  spawnSync('unshare', ['-m', 'true']).status === 0
const noMounts = isRoot ? false : 'mounts need root on Linux'

t.test('two models that do not fit together', { skip: skip || noMounts, timeout: 600_000 }, async (t) => {
  const MIB = 1100
  let pid = 0
  const node = await startNode(t, {
    before: machineOf(t, MIB, () => pid === 0 ? [] : [pid, ...descendants(pid)]),
    config: {
      cluster: { discovery: false },
      plugins: { placement: { autoplace: [] }, runners: { threads: 1 } },
      model_store: { hub: { enabled: false } }
    },
    env: { SVC_LLAMA_SERVER_BIN: server }
  })
  ;({ pid } = node.child)
  await pullAndPlace(t, node, folderOf('smollm2'), MODEL, ['--ctx', `${CONTEXT}`, '--slots', '2'])
  const at = { env: { SVC_HOME: node.home } }
  const pulled = await svc(['pull', folderOf('gemma3'), '--as', 'test/gemma3'], at)
  t.equal(pulled.status, 0, pulled.stderr)
  const stream = await counting(node, { max_tokens: 200 })
  const placed = await svc(['place', 'test/gemma3', '--ctx', '2048', '--slots', '8'], at)
  t.equal(placed.status, 6)
  t.match(placed.stderr, /needs [\d.]+ MiB = .*can use [\d.]+ MiB.*: [\d.]+ MiB too little/, 'with numbers')
  const advice = /svc (place test\/gemma3 --slots \d+)/.exec(placed.stderr)?.[1]
  t.ok(advice, `and the next command: ${placed.stderr}`)
  const end = await endWithin(stream, 120)
  t.match(end, { whole: true, finish: 'length', tokens: 200 }, 'the first goes on')
  t.ok(end !== 'hangs' && counts(end.text), JSON.stringify(end))
  t.equal(node.runners().length, 1)
  const refused = await ask(node, '/place_instance',
    { body: { model_id: 'test/gemma3', context_length: 2048, slots: 8 } })
  t.match([refused.status, refusal(refused)?.reason], [400, 'insufficient_memory'], refused.text)

  const again = await svc([...advice!.split(' '), '--ctx', '2048', '--wait=120'], at)
  t.equal(again.status, 0, again.stderr)
  t.equal((await answerOf(node, { model: MODEL, prompt: '1, 2, 3,', max_tokens: 8 })).status, 200)
  t.equal((await answerOf(node, { model: 'test/gemma3', prompt: '1, 2, 3,', max_tokens: 8 })).status, 200)
  await node.kill()
})

/** Mount point of a small disk; undefined if this system cannot mount one. */
function smallDisk (t: Test, mib: number): string | undefined {
  const where = mkdtempSync(join(tmpdir(), 'svc-disk-'))
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${mib}m`, 'tmpfs', where])
  t.teardown(() => {
    if (status === 0) spawnSync('umount', ['-l', where])
    rmSync(where, { recursive: true, force: true })
  })
  return status === 0 ? where : undefined
}

const filesIn = (path: string): string[] => readdirSync(path, { recursive: true, withFileTypes: true })
  .filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name))

t.test('the disk fills during a pull', { skip: skip || noMounts, timeout: 600_000 }, async (t) => {
  const disk = smallDisk(t, 360)
  if (disk === undefined) return
  const file = ggufOf('smollm2')
  const files = { [basename(file)]: readFileSync(file) }
  const hub = await startHub({ models: { 'real/smollm2': { files } } })
  t.teardown(() => hub.close())
  const home = join(disk, 'home')
  const MIB = 2 ** 20
  const node = await startNode(t, {
    home,
    config: {
      cluster: { discovery: false },
      plugins: { placement: { autoplace: [] }, runners: { threads: 1 } },
      model_store: { hub: { enabled: true, url: hub.url, redirect_hosts: [hub.cdnHost] } }
    },
    env: { ...sparing(4 * MIB), SVC_LLAMA_SERVER_BIN: server }
  })
  await pullAndPlace(t, node, folderOf('smollm2'), MODEL, ['--ctx', `${CONTEXT}`, '--slots', '2'])
  const before = filesIn(home).filter((path) => path.endsWith('.gguf'))
  const at = { env: { SVC_HOME: node.home } }
  hub.faults = { bytesPerSecond: 20 * MIB }
  const pulling = svc(['pull', 'real/smollm2'], at)
  await until('a part to arrive', () => hub.sent() > 16 * MIB)
  const stream = await counting(node, { max_tokens: 100 })
  try {
    for (let n = 0; ; n++) writeFileSync(join(disk, `fill-${n}`), Buffer.alloc(MIB))
  } catch { /* full */ }
  const failed = await pulling
  t.not(failed.status, 0)
  t.match(failed.stderr, /ENOSPC.*free disk space/s, 'says why, and what to do')
  t.notMatch(failed.stderr, /\n\s+at /, 'without a stack')
  const published = filesIn(home).filter((path) => path.endsWith('.gguf') && !path.includes('.incoming'))
  t.same(published, before, 'nothing is published')
  t.notMatch((await svc(['ls', '--json'], at)).stdout, /real\/smollm2/)
  const partial = async (): Promise<number> =>
    ((await ask(node, '/store/storage')).json as { partialBytes: number }).partialBytes
  t.ok(await partial() > 0, 'what arrived is kept, and counted')
  t.equal((await ask(node, '/healthz')).status, 200)
  const end = await endWithin(stream, 120)
  t.match(end, { whole: true, finish: 'length', tokens: 100 }, 'the other model goes on')
  for (const name of readdirSync(disk)) if (name.startsWith('fill-')) rmSync(join(disk, name))
  hub.faults = {}
  const sent = hub.sent()
  const again = await svc(['pull', 'real/smollm2'], at)
  t.equal(again.status, 0, again.stderr)
  t.ok(hub.sent() - sent < files[basename(file)]!.length, 'only the rest is fetched')
  t.equal(await partial(), 0, 'nothing partial is left')
  t.same(filesIn(join(home, 'store/.incoming')), [])
  const placed = await svc(['place', 'real/smollm2', '--ctx', `${CONTEXT}`, '--slots', '1', '--wait=120'], at)
  t.equal(placed.status, 0, placed.stderr)
  const ask12 = { prompt: '1, 2, 3,', max_tokens: 12 }
  const [own, other] = [await answerOf(node, { model: MODEL, ...ask12 }),
    await answerOf(node, { model: 'real/smollm2', ...ask12 })]
  t.equal(other.choice?.text, own.choice?.text, 'the file is whole')
  await node.kill()
})
