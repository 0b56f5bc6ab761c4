import t from 'tap'
import engine from '../server/index.js'
import {
  ask, chunksOf, entries, folder, lives, notingEnv, rig, specOf, standIn, talk, until
} from './llama-kit.js'

t.test('an older server: a port, fewer options, errors in a field of their own', async (t) => {
  const { session, journal } = await rig(t, { help: 'old' })
  t.match((journal()[0]?.['start'] as string[]).join(' '), /--host 127\.0\.0\.1 --port \d+ .*--parallel 16$/)
  t.equal((await ask(session, 'chat', talk('go'))).text, 'a b c')
  await t.rejects(ask(session, 'chat', talk('late')), { reason: 'provider_error', message: /oh no/ })
  const ports = new Set(journal().flatMap((entry) => entry['port'] ?? []))
  t.equal(ports.size, 1, 'one connection is kept and used again')
})

t.test('a kept connection that the server has closed is not noticed', async (t) => {
  const { session } = await rig(t, { hangsUp: true })
  for (let i = 0; i < 5; i++) t.equal((await chunksOf(session, 'tokenize', { prompt: 'hi' })).length, 1)
})

t.test('a server that dies fails its tasks and ends the runner', async (t) => {
  const { session, env, deaths, pid } = await rig(t, { noise: 1 })
  await t.rejects(ask(session, 'chat', talk('crash')), {
    reason: 'instance_lost', message: /^llama-server was ended by SIGKILL$/
  })
  t.notOk(lives(pid))
  t.same(deaths, ['llama-server was ended by SIGKILL'])
  t.match(env.logs.at(-1), /^error llama-server was ended by SIGKILL; its last lines: warning 0: x{50,}/,
    'its own log is told to the operator only')
})

t.test('a server that does not start', async (t) => {
  for (const [scenario, message, reason = 'provider_error'] of [
    [{ dies: 'at start' }, /exited with code 1: llama_model_load: error loading model/],
    [{ dies: 'at start', says: 'common_chat_templates_init: error: parser' }, /templates_init: error: parser/,
      'chat_template_unreadable'],
    [{ dies: 'while loading', refusals: 100 }, /exited with code 9/],
    [{ help: 'other' }, /is not a llama-server, .* does not name --model, --host/],
    [{ help: 'fails' }, /--help failed: .*Run it by hand/],
    [{ key: 'another' }, /Invalid API Key/]
  ] as const) {
    const directory = folder(t)
    const { binary, journal } = standIn(directory, scenario)
    process.chdir(directory)
    const env = notingEnv()
    await t.rejects(engine.load(specOf(directory, binary), env), { reason, message })
    const started = entries(journal).find((entry) => 'start' in entry)
    t.notOk(started !== undefined && lives(Number(started['pid'])), 'nothing is left')
  }
})

t.test('which program and which file', async (t) => {
  const directory = folder(t)
  const load = async (serverBinary: unknown, files = [{ path: 'm.gguf', role: 'weights', bytes: 4 }]) =>
    await engine.load({ ...specOf(directory, '', { files }), options: { serverBinary } }, notingEnv())
  await t.rejects(load('llama-server'), { message: /SVC_LLAMA_SERVER_BIN is "llama-server"/ })
  await t.rejects(load('/nowhere/llama-server'), { message: /^\/nowhere\/llama-server --help failed/ })
  await t.rejects(load('/bin/true', [{ path: 'm.onnx', role: 'weights', bytes: 4 }]), {
    reason: 'model_invalid', message: /test\/gguf has no \.gguf file/
  })
  const path = process.env['PATH']
  process.env['PATH'] = directory
  t.teardown(() => { process.env['PATH'] = path })
  await t.rejects(load(undefined), { message: /no llama-server in PATH: .*svc engine add.*or set / })
})

t.test('the log of a loud server is bounded', async (t) => {
  const { session, env, echoed } = await rig(t, { noise: 2000 })
  await until('the noise is over', () => env.logs.length >= 11)
  await ask(session, 'chat', talk('go'))
  t.equal(env.logs.filter((line) => line.includes('warning')).length, 10)
  t.ok(env.logs.every((line) => line.length < 700))
  t.ok(echoed.every((line) => line.length <= 501))
  t.notOk(echoed.some((line) => line.includes('stop processing')), 'what is told of every answer')
})
