import t from 'tap'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { multicastProblem } from '../../../kernel/net/multicast.js'
import { createDiscovery, hintsOf, type SeenService } from '../links/discovery.js'
import { systemClock } from '../../../kernel/api/clock.js'
import { manualClock } from '../../../kernel/testing/index.js'
import type { Logger } from '../../../kernel/api/plugin.js'
import type { ServiceConfig } from 'bonjour-service'
import type { OpenedResponder } from '../../../kernel/net/responder.js'

interface Said { level: string, message: string }

function listener (): Logger & { said: Said[] } {
  const said: Said[] = []
  const at = (level: string) => (_: unknown, message: string): void => { said.push({ level, message }) }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal'),
    said }
}

const self = { installId: 'me', clusterHash: 'c0ffee' }
const seen = (more: Partial<SeenService> & { i?: string, c?: string, v?: string } = {}): SeenService => {
  const { i = 'other', c = 'c0ffee', v = '1', ...rest } = more
  return { port: 7001, txt: { v, c, i }, addresses: ['10.0.0.7'], ...rest }
}

t.test('only usable addresses of other nodes of this cluster are hints', async (t) => {
  const check = (service: SeenService, expected: string[]): void => {
    t.same(hintsOf(service, self), expected, JSON.stringify(service))
  }
  check(seen(), ['10.0.0.7:7001'])
  check(seen({ addresses: ['10.0.0.7', 'fd00::2', '10.0.0.7'] }), ['10.0.0.7:7001', '[fd00::2]:7001'])
  check(seen({ addresses: ['fe80::1', 'FEA0::1'], referer: { address: '10.0.0.9' } }), ['10.0.0.9:7001'])
  check(seen({ addresses: [], referer: { address: '127.0.0.1' } }), ['127.0.0.1:7001'])
  check(seen({ addresses: ['evil.example', 'a b', 7] }), [])
  check(seen({ i: 'me' }), [])
  check(seen({ c: 'other' }), [])
  check(seen({ v: '2' }), [])
  check(seen({ txt: 'text' }), [])
  check(seen({ txt: { v: '1', c: 'c0ffee' } }), [])
  for (const port of [0, 65536, 1.5, '7001', undefined]) check(seen({ port }), [])
  check(seen({ addresses: Array.from({ length: 20 }, (_, i) => `10.0.0.${i}`) }),
    Array.from({ length: 8 }, (_, i) => `10.0.0.${i}:7001`))
})

/** A network in memory: published services and their listeners. */
function twin (): { open: (broken: (error: Error) => void) => Promise<OpenedResponder>,
  published: ServiceConfig[]
  calls: string[], up (service: SeenService): void, fail (error: Error): void } {
  const published: ServiceConfig[] = []
  const calls: string[] = []
  let up = (_: SeenService): void => { throw new Error('nobody looks') }
  let fail = (_: Error): void => {}
  return {
    published,
    calls,
    up: (service) => { up(service) },
    fail: (error) => { fail(error) },
    open: async (broken) => {
      fail = broken
      return {
        responder: {
          publish: (service: ServiceConfig) => { published.push(service) },
          find: (_: unknown, fn: typeof up) => {
            up = fn
            return { on: () => {}, update: () => { calls.push('update') },
              stop: () => { calls.push('stop') }, services: [] }
          },
          unpublishAll: (done: () => void) => { calls.push('goodbye'); done() }
        } as unknown as OpenedResponder['responder'],
        repeat: () => { calls.push('repeat') },
        close: () => { calls.push('close') }
      }
    }
  }
}

t.test('publishes itself, reports others, asks again, says goodbye', async (t) => {
  const { open, published, calls, up } = twin()
  const clock = manualClock()
  const found: string[] = []
  const log = listener()
  const discovery = createDiscovery({ port: 7000, ipv6: false, ...self, log, clock, open,
    found: (address) => { found.push(address) } })
  await new Promise(setImmediate)
  t.same(published, [{ name: 'me', host: 'me.local', type: 'svc', port: 7000, probe: false, disableIPv6: true,
    txt: { v: '1', c: 'c0ffee', i: 'me' } }])
  up(seen())
  up(seen({ i: 'me' }))
  t.same(found, ['10.0.0.7:7001'])
  await clock.advance(60_000)
  t.same(calls, ['repeat', 'update'])
  await discovery.stop()
  t.same(calls.slice(2), ['goodbye', 'stop', 'close'])
  await clock.advance(60_000)
  t.equal(calls.length, 5, 'nothing after the stop')
  await discovery.stop()
  t.same(log.said, [])
})

t.test('where multicast does not work it says so once, at debug', async (t) => {
  const check = async (what: string, run: (log: Logger) => Promise<void>): Promise<void> => {
    const log = listener()
    await run(log)
    t.equal(log.said.length, 1, what)
    t.match(log.said[0], { level: 'debug', message: /multicast does not work/ }, what)
  }
  await check('cannot open', async (log) => {
    const open = async (): Promise<OpenedResponder> => { throw new Error('EACCES') }
    await createDiscovery({ port: 7000, ipv6: false, ...self, log, open, found: () => {} }).stop()
  })
  await check('breaks later, twice', async (log) => {
    const net = twin()
    const discovery =
      createDiscovery({ port: 7000, ipv6: false, ...self, log, open: net.open, found: () => {} })
    await new Promise(setImmediate)
    net.fail(new Error('ENODEV'))
    net.fail(new Error('ENODEV'))
    t.same(net.calls, ['stop', 'close'])
    await discovery.stop()
  })
  await check('a port that cannot be published', async (log) => {
    const discovery = createDiscovery({ port: 0, ipv6: false, ...self, log, found: () => {} })
    await discovery.stop()
  })
})

t.test('two nodes on the real network of this machine', async (t) => {
  const problem = await multicastProblem(systemClock)
  if (problem !== null) {
    t.comment(`skipped: no multicast on this machine: ${problem}`)
    return
  }
  const log = listener()
  const clusterHash = `t${process.pid}`
  const start = (installId: string, port: number, found: (address: string) => void):
  ReturnType<typeof createDiscovery> =>
    createDiscovery({ port, ipv6: false, installId, clusterHash, log, found })
  const heard = { a: '', b: '', stranger: '' }
  const both = new Promise<void>((resolve) => {
    const note = (who: 'a' | 'b') => (address: string): void => {
      heard[who] = address
      if (heard.a !== '' && heard.b !== '') resolve()
    }
    const a = start('node-a', 7101, note('a'))
    const b = start('node-b', 7102, note('b'))
    const stranger = createDiscovery({ port: 7103, ipv6: false, installId: 'node-c', clusterHash: 'else', log,
      found: (address) => { heard.stranger = address } })
    t.teardown(async () => { await Promise.all([a, b, stranger].map((one) => one.stop())) })
  })
  const keepAlive = setInterval(() => {}, 1000)
  t.teardown(() => { clearInterval(keepAlive) })
  await both
  t.match(heard.a, /:7102$/)
  t.match(heard.b, /:7101$/)
  t.equal(heard.stranger, '', 'another cluster is not reported')
  t.same(log.said, [])
})

t.test('it does not keep a process alive', (t) => {
  const compiled = (path: string): string => ts.transpileModule(
    readFileSync(new URL(path, import.meta.url), 'utf8'),
    { compilerOptions: { module: ts.ModuleKind.ESNext, target: ts.ScriptTarget.ES2023 } }).outputText
  const folder = t.testdir({
    'package.json': '{"type":"module"}',
    kernel: {
      'cluster.js': ['api/clock', 'net/multicast', 'net/responder']
        .map((name) => `export * from './${name}.js'`).join('\n'),
      'api': { 'clock.js': compiled('../../../kernel/api/clock.ts') },
      'net': {
        'multicast.js': compiled('../../../kernel/net/multicast.ts'),
        'responder.js': compiled('../../../kernel/net/responder.ts')
      }
    },
    plugins: { cluster: { links: { 'discovery.js': compiled('../links/discovery.ts') } } },
    'main.js': `
      import { createDiscovery } from './plugins/cluster/links/discovery.js'
      const log = { debug: () => {} }
      createDiscovery(
        { port: 7104, ipv6: false, installId: 'node-d', clusterHash: 'alone', log, found: () => {} })
      process.on('exit', () => { console.log('over') })`
  })
  const { NODE_OPTIONS: _, ...env } = process.env
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(folder, 'main.js')],
    { env, encoding: 'utf8', timeout: 60_000 })
  t.same({ status, stdout, stderr }, { status: 0, stdout: 'over\n', stderr: '' })
  t.end()
})
