/** LiteLLM's proxy before a node, with each of its providers that can reach svc; a client asks the proxy. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { folder, run, until } from '../../node/kit.js'
import { freePort, recorder } from '../recorder.js'
import {
  ANSWER, EMBEDDER, environment, MODEL, QUESTION, quiet, report, script, skip, startModels
} from './kit.js'

const { folder: programs = '', missing } = environment('litellm')
const KEY = 'sk-test'

/** LiteLLM's name of each provider, and the address that it needs. */
const CHATS = {
  openai: '/v1', hosted_vllm: '/v1', anthropic: '', ollama: '/ollama', ollama_chat: '/ollama'
}
const OLLAMA = ['ollama', 'ollama_chat']
const EMBEDDERS = { openai: '/v1', hosted_vllm: '/v1', ollama: '/ollama' }

/** Starts the proxy; resolves to its URL. */
async function startProxy (t: Test, svcUrl: string): Promise<string> {
  const entry = (name: string, model: string, path: string): object => ({
    model_name: name,
    litellm_params: {
      model, api_base: `${svcUrl}${path}`, api_key: 'none',
      // Of its clients' fields, LiteLLM refuses `encoding_format` for Ollama.
      ...name === 'embed-ollama' ? { drop_params: true } : {}
    }
  })
  const config = join(folder(t), 'litellm.yaml')
  // JSON is also YAML.
  writeFileSync(config, JSON.stringify({
    model_list: [
      ...Object.entries(CHATS).map(([name, path]) => entry(name, `${name}/${MODEL}`, path)),
      ...Object.entries(EMBEDDERS).map(([name, path]) => entry(`embed-${name}`, `${name}/${EMBEDDER}`, path)),
      entry('speech', 'openai/svc/voice-en', '/v1')
    ],
    litellm_settings: { num_retries: 0, telemetry: false }, router_settings: { num_retries: 0 },
    general_settings: { master_key: KEY }
  }))
  const port = await freePort()
  const words = ['--config', config, '--host', '127.0.0.1', '--port', `${port}`, '--telemetry', 'False']
  const child = run(join(programs, 'litellm'), words, { env: quiet(t) })
  t.teardown(async () => {
    child.process.kill('SIGKILL')
    await child.ended
  })
  const url = `http://127.0.0.1:${port}`
  await until('LiteLLM', async () => {
    if (child.over()) throw new Error(`LiteLLM exited early: ${child.stderr().slice(-2000)}`)
    return await fetch(`${url}/health/liveliness`).then(({ ok }) => ok, () => false)
  }, { seconds: 300, everyMs: 250 })
  return url
}

t.test('LiteLLM proxy', { skip: missing ?? skip, timeout: 900_000 }, async (t) => {
  const node = await startModels(t)
  const recorded = await recorder(t, node)
  const proxy = await startProxy(t, recorded.url)
  const said = await script(t, programs, 'litellm', [proxy, QUESTION, KEY, ...Object.keys(CHATS)])
  for (const name of Object.keys(CHATS)) {
    const isOllama = OLLAMA.includes(name)
    t.match(said[name], {
      chat: ANSWER, tokens: 8, streamed: ANSWER, structured: ['city'],
      // Ollama's API has no required calls, and LiteLLM does not recognise errors of that API.
      ...isOllama ? {} : { called: [['weather', ['city']]] },
      too_long: [400, 'invalid_request_error', !isOllama]
    }, name)
  }
  for (const name of Object.keys(EMBEDDERS)) t.same(said[`embed-${name}`], [384, 384], name)
  t.same(said['speech'], ['RIFF', true])
  const long = { status: 400, sent: /word word/, got: /context_length_exceeded/,
    why: 'a prompt longer than the context' }
  await report(t, {
    client: 'LiteLLM proxy', environment: 'litellm', package: 'litellm',
    set: 'providers `openai` and `hosted_vllm`: `URL/v1`; `anthropic`: `URL`; `ollama` and `ollama_chat`: ' +
      '`URL/ollama`',
    works: ['chat', 'stream', 'tools', 'structured output', 'embeddings', 'speech', 'errors'],
    expected: ['/v1/chat/completions', '/v1/messages', '/ollama/api/chat', '/ollama/api/generate']
      .map((path) => ({ path, ...long }))
  }, recorded.exchanges)
})
