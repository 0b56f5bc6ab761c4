import t, { type Test } from 'tap'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { createInterface } from 'node:readline'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { tmpdir } from 'node:os'
import { packageRoot } from '../boot/package.js'

/** The compiled command line, as users start it. */
const main = join(packageRoot(), 'dist/kernel/cli/main.js')
const { NODE_OPTIONS: _, ...env } = process.env

interface Up {
  process: ChildProcess
  first: Promise<Started>
  err: () => string
  over: Promise<[number | null, NodeJS.Signals | null]>
}
interface Started { url: string, nodeId: string, pid: number, home: string }

function tempHome (t: Test): string {
  const home = mkdtempSync(join(tmpdir(), 'svc-up-'))
  t.teardown(() => { rmSync(home, { recursive: true, force: true, maxRetries: 5 }) })
  // Uses port 0, since another test may by now use the port after the API's.
  writeFileSync(join(home, 'svc.yaml'), 'cluster:\n  port: 0\nplugins:\n  runners:\n    enabled: false\n',
    { mode: 0o600 })
  return home
}

function up (t: Test, home: string, more: NodeJS.ProcessEnv = {}): Up {
  const child = spawn(process.execPath, [main, 'up', '--home', home, '--port', '0', '--json'],
    { env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] })
  let err = ''
  child.stderr.on('data', (part) => { err += String(part) })
  const over = once(child, 'exit') as Up['over']
  t.teardown(async () => { child.kill('SIGKILL'); await over })
  const lines = createInterface({ input: child.stdout })
  return { process: child, err: () => err, over,
    first: Promise.race([once(lines, 'line').then(([line]) => JSON.parse(String(line)) as Started),
      over.then(() => { throw new Error(err) })]) }
}

function run (...words: string[]): { status: number | null, stdout: string, stderr: string } {
  return spawnSync(process.execPath, [main, ...words], { env, encoding: 'utf8' })
}

t.ok(existsSync(main), 'compiled (npm run prepare)')

t.test('svc up tells where it listens, restarts without refusing, and stops', async (t) => {
  const home = tempHome(t)
  const node = up(t, home)
  const first = await node.first
  t.same(Object.keys(first), ['url', 'nodeId', 'pid', 'home'])
  t.equal(first.home, home)
  t.equal(first.pid, node.process.pid, 'pid is the launcher, which stays')
  const inside = (): number => (JSON.parse(readFileSync(join(home, 'run/node.json'), 'utf8')) as Started).pid
  t.not(inside(), first.pid, 'the home names the node')
  t.equal(JSON.parse(run('status', '--home', home, '--json').stdout).nodes[0].nodeId, first.nodeId)
  const token = readFileSync(join(home, 'operator.token'), 'utf8').trim()
  const headers = { authorization: `Bearer ${token}` }
  const asked = await fetch(`${first.url}/admin/restart`, { method: 'POST', headers })
  t.equal(asked.status, 200)
  let id = first.nodeId
  const end = performance.now() + 60_000
  while (id === first.nodeId && performance.now() < end) {
    const answer = await fetch(`${first.url}/node_id`, { headers: { connection: 'close' } })
      .catch((error: Error) => error)
    if (answer instanceof Error) {
      t.not((answer.cause as { code?: string }).code, 'ECONNREFUSED', 'not refused')
    } else if (answer.status === 200) id = await answer.json() as string
  }
  t.not(id, first.nodeId, 'another node on the same port')
  t.match(node.err(), /restarted: http/)
  node.process.kill('SIGTERM')
  t.same(await node.over, [0, null])
  t.equal(run('state', '--url', first.url).status, 7)
})

t.test('a port or a home in use names its holder; a bad svc.yaml names every problem', async (t) => {
  const home = tempHome(t)
  const other = tempHome(t)
  const node = up(t, home)
  const { url } = await node.first
  const { pid } = JSON.parse(readFileSync(join(home, 'run/node.json'), 'utf8')) as Started
  const { port } = new URL(url)
  const sameHome = run('up', '--home', home, '--port', '0')
  t.equal(sameHome.status, 1)
  t.match(sameHome.stderr, new RegExp(`in use by process ${pid} `))
  const check = (more: NodeJS.ProcessEnv): void => {
    const ran = spawnSync(process.execPath, [main, 'up', '--home', other, '--port', port],
      { env: { ...env, ...more }, encoding: 'utf8' })
    t.equal(ran.status, 1)
    t.match(ran.stderr, new RegExp(`port ${port} is in use by process \\d+ \\(.*up.*\\); stop it`))
  }
  check({})
  check({ SVC_NO_LAUNCHER: '1' })
  writeFileSync(join(other, 'svc.yaml'), 'api:\n  prt: 1\nlogging:\n  level: loud\n')
  const bad = run('up', '--home', other)
  t.equal(bad.status, 1)
  t.match(bad.stderr, /svc\.yaml:2.*api\.prt[\s\S]*svc\.yaml:4.*logging\.level/)
  t.notMatch(bad.stderr, /\n +at /, 'no stack')
})

t.test('Ctrl-C of the whole group, and of the launcher alone, is 130; without a launcher too', async (t) => {
  const check = async (more: NodeJS.ProcessEnv, aim: (node: Up, pid: number) => void): Promise<void> => {
    const home = tempHome(t)
    const node = up(t, home, more)
    await node.first
    aim(node, (JSON.parse(readFileSync(join(home, 'run/node.json'), 'utf8')) as Started).pid)
    t.same(await node.over, [130, null])
  }
  await check({}, (node) => { node.process.kill('SIGINT') })
  await check({}, (node, pid) => { process.kill(pid, 'SIGINT'); node.process.kill('SIGINT') })
  await check({ SVC_NO_LAUNCHER: '1' }, (node, pid) => {
    t.equal(pid, node.process.pid)
    node.process.kill('SIGINT')
  })
})

t.test('what a verb imports: nothing heavy before it is needed', async (t) => {
  const folder = t.testdir({ 'trace.mjs': `
    import { register } from 'node:module'
    register('data:text/javascript,' + encodeURIComponent(\`
      import { appendFileSync } from 'node:fs'
      export async function load (url, context, next) {
        appendFileSync(\${JSON.stringify(process.env.TRACE)}, url + '\\\\n')
        return next(url, context)
      }\`))` })
  const sources = JSON.parse(readFileSync(join(packageRoot(), 'dist/sources.json'), 'utf8')) as
    Record<string, string[] | undefined>
  const check = (words: string[], forbidden: RegExp): void => {
    const TRACE = join(folder, `${words[0]!}.txt`)
    spawnSync(process.execPath, ['--import', join(folder, 'trace.mjs'), main, ...words],
      { env: { ...env, TRACE } })
    // One file of the bundle contains many sources, so the test maps files to sources.
    const loaded = readFileSync(TRACE, 'utf8').split('\n')
      .flatMap((url) => sources[url.split('/dist/')[1] ?? ''] ?? [url])
    t.ok(loaded.some((path) => path.includes('commander')), 'the trace works')
    t.same(loaded.filter((url) => forbidden.test(url)), [], words.join(' '))
  }
  const heavy = /^node_modules\/(fastify|yjs|onnx|ajv|yaml|undici|pino|lamejs|protobufjs|systeminformation)/
  check(['--help'], heavy)
  check(['status', '--url', 'http://127.0.0.1:1'], heavy)
  check(['say', 'x', '--url', 'http://127.0.0.1:1'], heavy)
})
