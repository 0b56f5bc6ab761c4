import t, { type Test } from 'tap'
import { spawn, type ChildProcess } from 'node:child_process'
import { copyFileSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { createServer, connect, type AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { once } from 'node:events'
import ts from 'typescript'

const HAS_IPV6 = Object.values(networkInterfaces()).flat().some((one) => one?.address === '::1')

/** Compiles the launcher with a test parent and child, since child processes cannot run TypeScript. */
function build (t: Test): string {
  const compiled = (name: string): string => ts.transpileModule(
    readFileSync(new URL(`../boot/${name}.ts`, import.meta.url), 'utf8'),
    { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 } }).outputText
  return t.testdir({
    'package.json': '{"type":"module"}',
    'launcher.js': compiled('launcher'),
    'inspector.js': compiled('inspector'),
    'parent.js': `
      import { exitLike, launch } from './launcher.js'
      const [host, port] = process.argv.slice(2)
      let asked = 0
      try {
        exitLike(await launch({
          args: [new URL('./child.js', import.meta.url).pathname], env: process.env,
          address: async () => ({ host, port: Number(asked++ > 0 && process.env.PORT_2 || port) })
        }))
      } catch (error) {
        console.log(JSON.stringify({ failed: error.code }))
        process.exitCode = 9
      }`,
    // Answers each connection with its pid, then executes the connection's first line as a command.
    'child.js': `
      import net from 'node:net'
      const say = (value) => process.stdout.write(JSON.stringify(value) + '\\n')
      process.once('disconnect', () => process.exit(1))
      process.channel.unref()
      for (const signal of ['SIGTERM', 'SIGHUP', 'SIGINT']) {
        process.on(signal, () => { say({ signal }); process.exit(signal === 'SIGINT' ? 130 : 0) })
      }
      const server = net.createServer((socket) => {
        socket.on('error', () => {})
        socket.on('data', (data) => {
          const [verb, value] = String(data).trim().split(' ')
          socket.end(process.pid + '\\n', () => {
            if (verb === 'exit') process.exit(Number(value))
            if (verb === 'die') process.kill(process.pid, value)
            if (verb === 'restart') { server.close(); setTimeout(() => process.exit(75), 30) }
          })
        })
      })
      setTimeout(() => {
        if (process.env.SVC_LAUNCHER_FD6) {
          net.createServer((socket) => { server.emit('connection', socket) })
            .listen({ fd: Number(process.env.SVC_LAUNCHER_FD6) })
        }
        server.listen({ fd: Number(process.env.SVC_LISTEN_FD) }, () => {
          const { SVC_LAUNCHER_PID, SVC_LAUNCHER_STARTS } = process.env
          say({ pid: process.pid, port: server.address().port, parent: Number(SVC_LAUNCHER_PID),
            starts: Number(SVC_LAUNCHER_STARTS), flags: process.execArgv })
        })
      }, Number(process.env.SVC_LAUNCHER_STARTS) > 1 ? 400 : 0)`
  })
}

interface Line {
  pid: number, port: number, parent: number, starts: number, flags: string[], signal?: string, failed?: string
}

interface Parent {
  process: ChildProcess
  line (): Promise<Line>
  over: Promise<[number | null, NodeJS.Signals | null]>
}

/** Starts a launcher, with `more` added to its environment. All its processes end with the test. */
function start (t: Test, folder: string, port = 0, more: NodeJS.ProcessEnv = {}): Parent {
  const { NODE_OPTIONS: _, ...env } = process.env
  const child = spawn(process.execPath, [join(folder, 'parent.js'), '127.0.0.1', String(port)],
    { env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  t.teardown(() => { child.kill('SIGKILL') })
  return {
    process: child,
    line: async () => {
      const { done, value } = await lines.next()
      if (done === true) throw new Error('the launcher ended without a line; its stderr is above')
      return JSON.parse(value) as Line
    },
    over: once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  }
}

/** Sends a line and resolves to the pid that answered; rejects when the connection is refused. */
async function ask (port: number, line: string, host = '127.0.0.1'): Promise<number> {
  const socket = connect(port, host)
  socket.write(`${line}\n`)
  let text = ''
  for await (const part of socket) text += String(part)
  return Number(text)
}

async function gone (pid: number): Promise<boolean> {
  for (let i = 0; i < 200; i++) {
    try { process.kill(pid, 0) } catch { return true }
    const stat = (() => { try { return readFileSync(`/proc/${pid}/stat`, 'utf8') } catch { return '' } })()
    if (stat.includes(') Z ')) return true
    await sleep(25)
  }
  return false
}

t.test('a restart keeps the socket: a connection made meanwhile waits', async (t) => {
  const parent = start(t, build(t))
  const first = await parent.line()
  t.equal(first.starts, 1)
  t.equal(first.parent, parent.process.pid)
  t.match(first.flags, [/^--v8-pool-size=[1-4]$/, '--max-semi-space-size=4'],
    'the collector does not crowd out the event loop')
  t.equal(await ask(first.port, 'hello'), first.pid)
  t.equal(await ask(first.port, 'restart'), first.pid)
  t.ok(await gone(first.pid), 'the first node has ended')
  const waiting = ask(first.port, 'hello')
  const waiting6 = HAS_IPV6 ? ask(first.port, 'hello', '::1') : waiting
  const second = await parent.line()
  t.equal(second.port, first.port)
  t.equal(second.starts, 2)
  t.not(second.pid, first.pid)
  t.equal(await waiting, second.pid)
  t.equal(await waiting6, second.pid, 'at either loopback')
})

t.test('a second loopback that is taken, as one that is missing, keeps no node from starting', {
  skip: HAS_IPV6 ? false : 'there is no ::1 here'
}, async (t) => {
  const taken = createServer().listen(0, '::1')
  await once(taken, 'listening')
  t.teardown(() => { taken.close() })
  const { port } = taken.address() as AddressInfo
  const first = await start(t, build(t), port).line()
  t.equal(await ask(port, 'hello'), first.pid)
})

t.test('the port may change with a restart', async (t) => {
  const free = createServer().listen(0, '127.0.0.1')
  await once(free, 'listening')
  const { port } = free.address() as AddressInfo
  await new Promise((resolve) => { free.close(resolve) })
  const parent = start(t, build(t), 0, { PORT_2: String(port) })
  const first = await parent.line()
  await ask(first.port, 'restart')
  t.equal((await parent.line()).port, port)
  await t.rejects(ask(first.port, 'hello'), { code: 'ECONNREFUSED' })
})

t.test('the node\'s end is the launcher\'s end', async (t) => {
  const folder = build(t)
  const check = async (order: string, expected: [number | null, string | null]): Promise<void> => {
    const parent = start(t, folder)
    await ask((await parent.line()).port, order)
    t.same(await parent.over, expected, order)
  }
  await check('exit 0', [0, null])
  await check('exit 3', [3, null])
  await check('die SIGSEGV', [null, 'SIGSEGV'])
  await check('die SIGKILL', [null, 'SIGKILL'])
})

t.test('signals to stop are passed on', async (t) => {
  const folder = build(t)
  const check = async (signal: NodeJS.Signals, status: number): Promise<void> => {
    const parent = start(t, folder)
    const { pid } = await parent.line()
    parent.process.kill(signal)
    t.equal((await parent.line()).signal, signal)
    t.same(await parent.over, [status, null], signal)
    t.ok(await gone(pid))
  }
  await check('SIGTERM', 0)
  await check('SIGHUP', 0)
  await check('SIGINT', 130)
})

t.test('a signal during a restart stops for good', async (t) => {
  const parent = start(t, build(t))
  const first = await parent.line()
  await ask(first.port, 'restart')
  await gone(first.pid)
  parent.process.kill('SIGTERM')
  const [status, signal] = await parent.over
  t.ok(status === 0 || signal === 'SIGTERM', `ended with ${String(status)} ${String(signal)}`)
  await t.rejects(ask(first.port, 'hello'), { code: 'ECONNREFUSED' })
})

t.test('kill -9 of the launcher takes the node with it, with and without setpriv', async (t) => {
  const folder = build(t)
  for (const more of [{}, { PATH: '/nowhere' }]) {
    const parent = start(t, folder, 0, more)
    const { pid } = await parent.line()
    parent.process.kill('SIGKILL')
    t.ok(await gone(pid), JSON.stringify(more))
  }
})

t.test('a port in use is told before anything is started', async (t) => {
  const other = createServer().listen(0, '127.0.0.1')
  await once(other, 'listening')
  t.teardown(() => { other.close() })
  const parent = start(t, build(t), (other.address() as AddressInfo).port)
  t.equal((await parent.line()).failed, 'EADDRINUSE')
  t.same(await parent.over, [9, null])
})

t.test('what the node starts does not inherit the socket', async (t) => {
  if (process.platform !== 'linux') return t.comment('needs /proc')
  const folder = build(t)
  const child = join(folder, 'child.js')
  copyFileSync(child, join(folder, 'real.js'))
  writeFileSync(child, `import { spawn } from 'node:child_process'
    const inner = spawn('sleep', ['30'], { stdio: 'ignore' })
    process.on('exit', () => inner.kill('SIGKILL'))
    process.stdout.write(JSON.stringify({ pid: inner.pid }) + '\\n')
    await import('./real.js')`)
  const parent = start(t, folder)
  const inner = (await parent.line()).pid
  const { port } = await parent.line()
  const links = readdirSync(`/proc/${inner}/fd`).map((fd) => readlinkSync(`/proc/${inner}/fd/${fd}`))
  t.notOk(links.some((link) => link.startsWith('socket:')), links.join(' '))
  await ask(port, 'exit 0')
  await parent.over
})
