import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { findTools, probeSandboxLevel } from '../process/sandbox.js'
import { hostEntry, launch, runnerEnv, signalGroup } from '../process/spawn.js'
import { MARK, PIDFILE, readPidfile, sweepOrphans } from '../process/pidfile.js'
import { bootId, diagnose, processTreeBytes, residentBytes, startTime } from '../process/proc.js'
import { bench, hear, lives, until, type TestCase } from './process-kit.js'

const NODE = new URL('./fixtures/node.mjs', import.meta.url)
const LOADER = new URL('../../../test/tools/typescript.mjs', import.meta.url).href

/** Starts fixtures/node.mjs and returns its process and a reader of its output, line by line. */
function runNode (t: TestCase, mode: string, payload: object, path?: string) {
  const scratch = t.testdir()
  const args = ['--expose-gc', `--import=${LOADER}`, NODE.pathname, scratch, mode, JSON.stringify(payload)]
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...(path === undefined ? {} : { PATH: path }) },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  t.teardown(() => child.kill('SIGKILL'))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const line = async (): Promise<Record<string, unknown>> =>
    JSON.parse(String((await lines.next()).value)) as Record<string, unknown>
  return { child, line, scratch }
}

t.test('T-R02: killing the node leaves neither runner nor what the engine started', async (t) => {
  for (const [name, path] of [['with setpriv', undefined], ['without setpriv', '/nowhere']] as const) {
    for (const mode of ['grandchild', 'grandchildAndBlock']) {
      const { child, line } = runNode(t, 'serve', { mode }, path)
      const { runner, pid } = await line()
      t.ok(lives(Number(runner)) && lives(Number(pid)), `${name}, ${mode}`)
      child.kill('SIGKILL')
      await until(`${name}, ${mode}: all gone`, () => !lives(Number(runner)) && !lives(Number(pid)))
    }
  }
})

t.test('a runner that dies takes what its engine started with it', async (t) => {
  const { ready, open, pid } = bench(t)
  await ready()
  let grandchild = -1
  await hear(open({ mode: 'grandchild' }), (index, chunk) => {
    grandchild = Number(chunk.payload['pid'])
    t.ok(lives(grandchild))
    const both = Number(residentBytes(pid())) + Number(residentBytes(grandchild))
    t.ok(Number(processTreeBytes(pid())) > 0.9 * both, 'its memory counts as the runner\'s')
    process.kill(pid(), 'SIGKILL')
  })
  await until('grandchild gone', () => !lives(grandchild))
})

t.test('T-R07: floods cost the node little', { timeout: 60_000 }, async (t) => {
  const MB = 1e6
  const flood = runNode(t, 'measure', { mode: 'floodStdout', seconds: 4 })
  const seen = await flood.line()
  t.equal(seen['end'], 'end', JSON.stringify(seen))
  t.match(String(seen['record']), /\d{5,} lines of stdout dropped/)
  t.ok(Number(seen['grownBytes']) < 50 * MB, `grown by ${Number(seen['grownBytes']) / MB} MB`)
  t.ok(readFileSync(join(flood.scratch, 'runner.log')).length < 5 * MB)
  t.comment(`stdout flood: ${JSON.stringify({ ...seen, record: undefined })}`)
  const control = await runNode(t, 'measure', { mode: 'floodControl' }).line()
  t.equal(control['end'], 'instance_lost')
  t.ok(Number(control['grownBytes']) < 50 * MB, `grown by ${Number(control['grownBytes']) / MB} MB`)
  t.comment(`control flood: ${JSON.stringify({ ...control, record: undefined })}`)
})

t.test('a setpriv that lacks the option is not used', (t) => {
  const dir = t.testdir()
  symlinkSync('/bin/false', join(dir, 'setpriv'))
  t.strictSame(probeSandboxLevel(undefined, 0, dir), { hold: 'none', tools: {}, at: 0 })
  for (const path of ['/nowhere', '']) t.strictSame(findTools(path), {})
  t.match(probeSandboxLevel(undefined, 0, '/usr/bin:/bin').tools, { setpriv: /setpriv$/ })
  t.end()
})

t.test('the environment is an allow-list', (t) => {
  const env = {
    PATH: '/bin',
    LC_ALL: 'C',
    LC_: 'x',
    NVIDIA_VISIBLE_DEVICES: '0',
    SVC_LLAMA_SERVER_BIN: '/x',
    NODE_OPTIONS: '--inspect',
    HOME: '/home/me',
    AWS_SECRET_ACCESS_KEY: 's',
    SVC_HOME: '/svc',
    TZ: undefined
  }
  t.strictSame(runnerEnv(env, '/scratch', 'm'), {
    PATH: '/bin',
    LC_ALL: 'C',
    NVIDIA_VISIBLE_DEVICES: '0',
    SVC_LLAMA_SERVER_BIN: '/x',
    MALLOC_ARENA_MAX: '1',
    ORT_DISABLE_TELEMETRY: '1',
    GGML_NO_BACKTRACE: '1',
    CUDA_DEVICE_ORDER: 'PCI_BUS_ID',
    HOME: '/scratch',
    [MARK]: 'm'
  })
  t.end()
})

t.test('the runner entry is the compiled one', (t) => {
  const folder = '/x/dist/plugins/runners/process'
  t.equal(hostEntry(`file://${folder}/launch.js`), `${folder}/host.js`)
  t.throws(() => hostEntry('file:///nowhere/plugins/runners/process/spawn.ts'), /not built: run `npm run/)
  t.end()
})

t.test('no signal goes to everybody', (t) => {
  for (const pid of [1, 0, -1, Number.NaN]) t.throws(() => { signalGroup(pid, 'SIGKILL') }, RangeError)
  t.end()
})

t.test('orphans are swept on an exact match only', async (t) => {
  const sleeper = (mark: string) => {
    const child = spawn('/bin/sleep', ['1000'], { detached: true, stdio: 'ignore', env: { [MARK]: mark } })
    t.teardown(() => child.kill('SIGKILL'))
    return child.pid!
  }
  const dir = t.testdir()
  const record = (name: string, pid: number, change: object = {}): void => {
    mkdirSync(join(dir, name))
    writeFileSync(join(dir, name, PIDFILE), JSON.stringify({
      format: 1, pid, startTime: startTime(pid), bootId: bootId(), mark: name, ...change
    }))
  }
  const pids = ['match', 'older', 'boot', 'format'].map(sleeper)
  const [match = 0, older = 0, boot = 0, format = 0] = pids
  record('match', match)
  record('older', older, { startTime: '1' })
  record('boot', boot, { bootId: 'another boot' })
  record('format', format, { format: 2 })
  mkdirSync(join(dir, 'garbage'))
  writeFileSync(join(dir, 'garbage', PIDFILE), '{"pid":')
  mkdirSync(join(dir, 'none'))
  t.strictSame(sweepOrphans(dir), [match])
  await until('match gone', () => !lives(match))
  t.ok([older, boot, format].every(lives))
  const left = ['match', 'older', 'boot', 'garbage'].map((name) => readPidfile(join(dir, name)))
  t.strictSame(left, [null, null, null, null])
  t.strictSame(sweepOrphans(join(dir, 'no such folder')), [])
})

t.test('what an orphan started is swept by its mark when the orphan itself is gone', async (t) => {
  const dir = t.testdir()
  const leader = spawn('/bin/sh', ['-c', '/bin/sleep 1000 & echo $!'], {
    detached: true, stdio: ['ignore', 'pipe', 'ignore'], env: { [MARK]: 'm1' }
  })
  const lines = createInterface({ input: leader.stdout })[Symbol.asyncIterator]()
  const member = Number((await lines.next()).value)
  t.teardown(() => { signalGroup(leader.pid!, 'SIGKILL') })
  await until('leader gone', () => !lives(leader.pid!))
  const file = (mark: string): void => {
    const record = { format: 1, pid: leader.pid, startTime: '1', bootId: bootId(), mark }
    writeFileSync(join(dir, PIDFILE), JSON.stringify(record))
  }
  file('another mark')
  t.strictSame(sweepOrphans(dir), [])
  t.ok(lives(member))
  file('m1')
  t.strictSame(sweepOrphans(dir), [member])
  await until('member gone', () => !lives(member))
})

t.test('a runner started by a process that is gone ends at once', async (t) => {
  const { child, pid } = launch({ scratch: t.testdir(), mark: 'm' })
  t.teardown(() => child.kill('SIGKILL'))
  t.ok(startTime(pid))
  t.ok(Number(residentBytes(pid)) > 0)
  t.match(diagnose(pid), /state \w .*resident \d+ kB/)
  signalGroup(pid, 'SIGKILL')
  await until('gone', () => !lives(pid))
  t.equal(startTime(99_999_999), null)
  t.equal(residentBytes(99_999_999), null)
  t.equal(processTreeBytes(99_999_999), null)
  const stdio = ['ignore', 'ignore', 'ignore', 'pipe'] as const
  const stranger = spawn(process.execPath, [hostEntry(), '1'], { stdio: [...stdio] })
  const signal = await new Promise((resolve) => { stranger.on('exit', (_code, name) => { resolve(name) }) })
  t.equal(signal, 'SIGKILL', 'its parent is not the one it was told')
})
