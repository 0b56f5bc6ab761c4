/** Models that span several nodes: the driver's command line, and the donors. */
import { renameSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { EngineSession } from '../../../kernel/api/engine.js'
import { donorPaths } from '../server/binary.js'
import { rpcArguments, rpcOf, splitOf } from '../server/command-line.js'
import { donorArguments, startDonor } from '../server/donor.js'
import {
  ask, chunksOf, donorIn, entries, folder, lives, notingEnv, rig, specOf, talk, until, type TestCase
} from './llama-kit.js'

const KNOWN = new Set(['--rpc', '--tensor-split', '--split-mode', '--n-gpu-layers'])
const donor = (port: number, layers: number, gpus?: number[]) =>
  ({ address: `127.0.0.1:${port}`, layers, ...gpus === undefined ? {} : { gpus } })

t.test('the shares of a driver and its donors', async (t) => {
  const cases: [string, number, [number, number][], string[]][] = [
    // Layers that are not offloaded stay on this node; the last device also gets the output, as one layer.
    ['cpu', 4, [[1, 12]], ['127.0.0.1:1', '13', '13']],
    ['cpu', 4, [[1, 12], [2, 6]], ['127.0.0.1:1,127.0.0.1:2', '12,7', '19']],
    // The driver's GPU comes after the donors' devices.
    ['cuda', 4, [[1, 12], [2, 6]], ['127.0.0.1:1,127.0.0.1:2', '12,6,5', '23']]
  ]
  for (const [backend, layers, donors, [rpc, split, gpu]] of cases) {
    const plan = { tensor: false, layers, donors: donors.map(([port, own]) => donor(port, own)) }
    t.strictSame(rpcArguments(plan, backend, KNOWN),
      ['--rpc', rpc, '--split-mode', 'layer', '--tensor-split', split, '--n-gpu-layers', gpu])
  }
  const plan = { tensor: false, layers: 1, donors: [donor(1, 1)] }
  t.throws(() => rpcArguments(plan, 'cpu', new Set(['--n-gpu-layers'])),
    { reason: 'provider_error', message: /--rpc, --tensor-split, --split-mode: it was built without RPC/ })
})

t.test('the shares of several devices, CPU last', async (t) => {
  type Own = { layers: number, gpus?: number[] }
  const cases: [string, string, Own, ReturnType<typeof donor>[], string][] = [
    ['two GPUs of a donor', 'cpu', { layers: 4 }, [donor(1, 12, [8, 4])], '--tensor-split 8,5 13'],
    ['what its GPUs cannot hold is on its CPU', 'cpu', { layers: 4 }, [donor(1, 12, [8, 0, 1])],
      '--tensor-split 8,1,4 13'],
    ['two own GPUs come last', 'cuda', { layers: 6, gpus: [4, 2] }, [donor(1, 3)], '--tensor-split 3,4,3 10'],
    ['an own CPU takes what is not handed out', 'cuda', { layers: 6, gpus: [3, 0] }, [donor(1, 3)],
      '--tensor-split 3,4,0 7']
  ]
  for (const [title, backend, own, donors, expected] of cases) {
    const told = rpcArguments({ tensor: false, ...own, donors }, backend, KNOWN).slice(4)
    t.equal(told.join(' ').replace('--n-gpu-layers ', ''), expected, title)
  }
  const tensor: typeof cases = [
    ['ranks are equal', 'cpu', { layers: 9 }, [donor(1, 9), donor(2, 9)],
      '--device RPC0,RPC1 --tensor-split 1,1'],
    ['a rank of two GPUs shares its part', 'cuda', { layers: 8, gpus: [6, 2] }, [donor(1, 8, [4, 4])],
      '--device RPC0,RPC1,CUDA0,CUDA1 --tensor-split 0.5,0.5,0.75,0.25']
  ]
  for (const [title, backend, own, donors, expected] of tensor) {
    const told = rpcArguments({ tensor: true, ...own, donors }, backend, KNOWN)
    t.match(told.join(' '), `--split-mode tensor ${expected} --n-gpu-layers 999`, title)
  }
})

t.test('a model on the devices of one node', async (t) => {
  t.equal(splitOf({}), null)
  t.strictSame(splitOf({ split: { layers: 9, gpus: [5, 4] } }), { layers: 9, gpus: [5, 4] })
})

t.test('the plan a driver is told', async (t) => {
  t.equal(rpcOf({}), null, 'a model on one node has none')
  const plan = { tensor: false, layers: 3, donors: [donor(5000, 2)] }
  t.strictSame(rpcOf({ rpc: plan }), plan)
  const wide = { tensor: true, layers: 3, gpus: [2, 1], donors: [donor(5000, 3, [3, 0])] }
  t.strictSame(rpcOf({ rpc: wide }), wide)
  // The engine must refuse a plan without donors, because the model would not fit.
  for (const rpc of [null, { ...plan, donors: [] }]) {
    t.throws(() => rpcOf({ rpc }), { message: /option rpc/ }, JSON.stringify(rpc))
  }
})

t.test('the options of a donor', async (t) => {
  const all = new Set(['--host', '--port', '--threads', '--device'])
  const given = (backend: string, flags: ReadonlySet<string> = all): string =>
    donorArguments({ flags, port: 7, threads: 2, backend }).join(' ')
  t.equal(given('cpu'), '--host 127.0.0.1 --port 7 --threads 2 --device CPU')
  t.equal(given('cuda'), '--host 127.0.0.1 --port 7 --threads 2 --device CUDA0')
  const split = { layers: 9, gpus: [4, 0, 3] }
  const several = donorArguments({ flags: all, port: 7, threads: 2, backend: 'cuda', split })
  t.equal(several.at(-1), 'CUDA0,CUDA2,CPU')
  t.equal(given('cpu', new Set(['--host', '--port'])), '--host 127.0.0.1 --port 7', 'an old one')
})

const IN_PATH = ['rpc-server', 'ggml-rpc-server']

t.test('which program a donor runs', async (t) => {
  const directory = folder(t)
  const { binary } = donorIn(directory)
  const beside = join(directory, 'llama-server')
  const told = { donorBinary: '/opt/rpc', serverBinary: beside }
  t.strictSame(await donorPaths(told), ['/opt/rpc'], 'as told')
  t.strictSame(await donorPaths({ serverBinary: beside }), [binary], 'the one beside the server')
  renameSync(binary, join(directory, 'ggml-rpc-server'))
  const newer = join(directory, 'ggml-rpc-server')
  t.strictSame(await donorPaths({ serverBinary: beside }), [newer], 'as newer builds call it')
  t.strictSame(await donorPaths({ serverBinary: '/none/llama-server' }), IN_PATH, 'those in PATH')
  t.strictSame(await donorPaths({}), IN_PATH)
  await t.rejects(donorPaths({ donorBinary: 'rpc-server' }), { message: /must be an absolute path/ })
})

async function donorOf (t: TestCase, scenario: Parameters<typeof donorIn>[1] = {}): Promise<{
  session: EngineSession, journal: () => Record<string, unknown>[], deaths: string[], port: number
}> {
  const directory = folder(t)
  const { binary, journal } = donorIn(directory, scenario)
  const deaths: string[] = []
  const spec = specOf(directory, '', {}, { lends: true, serverBinary: undefined, donorBinary: binary })
  const session = await startDonor(spec, notingEnv(), {
    clock: {
      now: () => performance.now(), pause: async (ms) => { await delay(ms, undefined, { ref: false }) }
    },
    die: (error) => { deaths.push(error.message) },
    echo: () => {}
  })
  t.teardown(() => session.close?.())
  await session.warmup()
  const [{ payload }] = await chunksOf(session, 'endpoint', { run: 'one' }) as [{ payload: { port: number } }]
  return { session, journal: () => entries(journal), deaths, port: payload.port }
}

t.test('a donor listens, for this machine only, and ends when it is asked', async (t) => {
  const { session, journal, port, deaths } = await donorOf(t)
  const [start] = journal()
  t.strictSame(start?.['donor'],
    ['--host', '127.0.0.1', '--port', String(port), '--threads', '1', '--device', 'CPU'])
  const socket = connect(port, '127.0.0.1')
  socket.write('hello\n')
  const said = await new Promise((resolve) => { socket.once('data', resolve) })
  t.equal(String(said), `${start?.['pid']}:hello\n`)
  socket.destroy()
  await t.rejects(chunksOf(session, 'chat', talk('go')), { reason: 'invalid_request', message: /is a donor/ })
  await session.close?.()
  t.notOk(lives(Number(start?.['pid'])))
  t.strictSame(deaths, [], 'that is no failure')
})

t.test('each start of a driver finds a program without what the one before has left', async (t) => {
  const { session, journal, port, deaths } = await donorOf(t)
  const endpoint = async (run: string): Promise<unknown> => (await chunksOf(session, 'endpoint', { run }))[0]
  t.same(await endpoint('one'), { payload: { port } }, 'a run has one')
  const [first, second] = await Promise.all([endpoint('two'), endpoint('two')])
  t.same(first, second)
  const starts = journal().filter((entry) => 'donor' in entry)
  const [old, fresh, ...more] = starts.map(({ pid }) => Number(pid))
  t.same(more, [])
  t.notOk(lives(old!))
  t.ok(lives(fresh!))
  await t.rejects(endpoint('one'), { message: /has restarted since/ }, 'a connection that comes late')
  t.ok(lives(fresh!))
  t.strictSame(deaths, [], 'that is no failure')
})

t.test('a donor that dies ends its runner, and says why', async (t) => {
  const { journal, deaths } = await donorOf(t)
  process.kill(Number(journal()[0]?.['pid']), 'SIGKILL')
  await until('the runner is told', () => deaths.length > 0)
  t.match(deaths[0], /rpc-server was ended by SIGKILL/)
})

t.test('programs that are no donors', async (t) => {
  await t.rejects(donorOf(t, { help: 'other' }),
    { message: /is not an rpc-server of llama.cpp.*SVC_LLAMA_RPC_SERVER_BIN/ })
  await t.rejects(donorOf(t, { dies: 'at start' }), { message: /exited with code 1: .*initialize CUDA0/ })
  const path = process.env['PATH']
  t.teardown(() => { process.env['PATH'] = path })
  process.env['PATH'] = folder(t)
  const none = specOf(folder(t), '', {}, { lends: true, serverBinary: undefined })
  await t.rejects(startDonor(none, notingEnv(), {} as never),
    { message: /no rpc-server or ggml-rpc-server beside llama-server or in PATH/ })
})

t.test('a driver with two donors', async (t) => {
  const [one, two] = [await donorOf(t), await donorOf(t)]
  const rpc = { layers: 4, donors: [donor(one.port, 3), donor(two.port, 2)] }
  const { session, journal } = await rig(t, {}, { nLayers: 9 }, { rpc })
  const pids = [one, two].map(({ journal }) => Number(journal()[0]?.['pid']))
  t.match(journal().find((entry) => 'donorsSaid' in entry), { donorsSaid: pids.map((pid) => `${pid}:hello`) })
  const args = (journal()[0]?.['start'] as string[]).join(' ')
  const addresses = [one, two].map(({ port }) => `127.0.0.1:${port}`).join()
  t.match(args, `--rpc ${addresses} --split-mode layer --tensor-split 3,3 --n-gpu-layers 6`)
  t.notMatch(args, '--device none', 'which would leave out the donors')
  t.match((await ask(session, 'chat', talk('lend'))).text, pids.map((pid) => `${pid} true `).join(''))
})

t.test('a driver whose donor is lost ends', async (t) => {
  const one = await donorOf(t)
  const { session, deaths } = await rig(t, {}, {}, { rpc: { layers: 1, donors: [donor(one.port, 1)] } })
  await t.rejects(ask(session, 'chat', talk('lose')),
    { reason: 'instance_lost', message: 'llama-server exited with code 134' })
  await until('the runner is told', () => deaths.length > 0)
})

t.test('a server without RPC is refused', async (t) => {
  await t.rejects(rig(t, { rpc: false }, {}, { rpc: { layers: 1, donors: [donor(9, 1)] } }),
    { message: /does not know --rpc, --tensor-split/ })
})
