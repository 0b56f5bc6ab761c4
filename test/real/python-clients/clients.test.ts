/** SDKs and agent frameworks in Python against a node with real models. */
import t from 'tap'
import { ANSWER, check, environment, skip, startModels, type Row } from './kit.js'
import type { Expected } from '../recorder.js'

const UNKNOWN = { status: 404, sent: /"acme\/none"/, got: /acme\/none/, why: 'a model that is absent' }
const LONG = { status: 400, sent: /word word/, got: /context_length_exceeded/,
  why: 'a prompt longer than the context' }
const WRONG = { status: 400, sent: /"model": ?"acme\/minilm"/, got: /wrong_task/,
  why: 'a chat with a model for embeddings' }
const CHATS = '/v1/chat/completions'
const at = (path: string, ...errors: Omit<Expected, 'path'>[]): Expected[] =>
  errors.map((error) => ({ path, ...error }))

const TEXT = { chat: ANSWER, streamed: ANSWER }
const VECTORS = { vectors: [384, 384] }
const WEATHER = [['weather', ['city']]]
const FORECAST = ['weather', ['city', 'days']]
const V1 = 'base URL `URL/v1`'

const CLIENTS: Row[] = [
  {
    client: 'openai (Python)', environment: 'sdks', package: 'openai', script: 'openai', set: V1,
    works: ['chat', 'stream', 'tools', 'structured output', 'Responses', 'completions', 'embeddings',
      'speech', 'models', 'errors'],
    expected: at(CHATS, UNKNOWN, LONG, WRONG),
    said: {
      ...TEXT, usage: [8, 8], required: [FORECAST], named: [FORECAST],
      streamed_call: FORECAST, with_result: /./, parsed: 'Place', parsed_call: 'Place',
      responses: ANSWER, streamed_response: ANSWER, responses_parsed: 'Place', completion: /./, ...VECTORS,
      sound: 'RIFF', listed: true, retrieved: 'acme/smol',
      unknown: ['NotFoundError', 404, 'model_not_found'], wrong_task: ['BadRequestError', 400, 'wrong_task'],
      too_long: ['BadRequestError', 400, 'context_length_exceeded']
    }
  },
  {
    client: 'anthropic (Python)', environment: 'sdks', package: 'anthropic', script: 'anthropic',
    set: 'base URL `URL`', works: ['chat', 'stream', 'tools', 'token count', 'models', 'errors'],
    expected: at('/v1/messages', UNKNOWN, LONG),
    said: {
      ...TEXT, usage: [8, 8], any: ['tool_use', WEATHER], named: ['tool_use', WEATHER],
      streamed_call: [['tool_use', 'weather']], with_result: 'text', counted: true, listed: true,
      unknown: ['NotFoundError', 404], too_long: ['BadRequestError', 400]
    }
  },
  {
    client: 'ollama (Python)', environment: 'sdks', package: 'ollama', script: 'ollama',
    set: 'host `URL/ollama`; to change names, a token in the header',
    works: ['chat', 'stream', 'tools offered', 'structured output', 'embeddings', 'show', 'list', 'ps',
      'errors'],
    more: ({ token }) => [token],
    expected: [
      ...at('/ollama/api/chat', UNKNOWN),
      ...at('/ollama/api/embed', { ...LONG, sent: /"truncate":\s?false/, got: /maximum/ })
    ],
    said: {
      ...TEXT, usage: [8, 8], structured: 'Place', generated: ANSWER, tools: [true, true],
      listed: [true, true], running: true, ...VECTORS, long: 384, unknown: 404, not_truncated: 400
    }
  },
  {
    client: 'langchain-openai', environment: 'sdks', package: 'langchain-openai', script: 'langchain',
    set: V1,
    works: ['chat', 'stream', 'tools', 'structured output', 'Responses', 'completions', 'embeddings',
      'errors'],
    more: () => ['openai'], expected: at(CHATS, LONG),
    said: {
      ...TEXT, structured: { function_calling: 'Place', json_schema: 'Place' }, called: WEATHER,
      with_result: 'AIMessage', ...VECTORS, batch: 2, responses: ANSWER, completion: /./,
      too_long: 'OpenAIContextOverflowError'
    }
  },
  {
    client: 'langchain-ollama', environment: 'sdks', package: 'langchain-ollama', script: 'langchain',
    set: 'base URL `URL/ollama`',
    works: ['chat', 'stream', 'tools offered', 'structured output', 'embeddings'],
    more: () => ['ollama'],
    said: { ...TEXT, structured: { json_schema: 'Place' }, with_result: 'AIMessage', ...VECTORS, batch: 2 }
  },
  {
    client: 'LlamaIndex', environment: 'agents', package: 'llama-index-llms-openai-like',
    script: 'llama_index', set: '`OpenAILike` with API base `URL/v1`',
    works: ['chat', 'stream', 'tools', 'structured output', 'completions', 'embeddings'],
    said: { ...TEXT, called: WEATHER, by_tool: 'Place', by_schema: 'Place', completion: true, ...VECTORS }
  },
  {
    client: 'instructor', environment: 'litellm', package: 'instructor', script: 'instructor', set: V1,
    works: ['structured output by tools and by schema', 'stream'],
    said: { TOOLS: ['Place', true], TOOLS_STRICT: ['Place', true], JSON_SCHEMA: ['Place', true] }
  },
  {
    client: 'Pydantic AI', environment: 'sdks', package: 'pydantic-ai-slim', script: 'pydantic_ai',
    set: '`URL/v1` for OpenAI, `URL` for Anthropic, `URL/ollama/v1` for Ollama',
    works: ['chat', 'stream', 'structured output by tools and by schema', 'Responses', 'Anthropic', 'Ollama'],
    said: Object.fromEntries(['chat', 'responses', 'ollama', 'anthropic'].map((api) => [api, {
      text: ANSWER, streamed: ANSWER, tool: 'Place',
      ...api === 'chat' || api === 'responses' ? { native: 'Place' } : {}
    }]))
  },
  {
    client: 'openai-agents (Python)', environment: 'sdks', package: 'openai-agents', script: 'openai_agents',
    set: V1, works: ['chat', 'stream', 'tools', 'structured output', 'Responses'],
    said: Object.fromEntries(['chat', 'responses'].map((api) => [api,
      { text: ANSWER, streamed: ANSWER, structured: 'Place', called: 1, output: /^It rains in / }]))
  },
  {
    client: 'LangGraph', environment: 'sdks', package: 'langgraph', script: 'langgraph', set: V1,
    works: ['agent', 'stream', 'tools'],
    said: { offered: ANSWER, streamed: true, results: [true], said: 'ai' }
  },
  {
    client: 'crewAI', environment: 'agents', package: 'crewai', script: 'crewai',
    set: 'model `openai/MODEL`, base URL `URL/v1`', works: ['chat', 'stream', 'crew', 'tools offered',
      'structured output'],
    said: { ...TEXT, structured: 'Place', crew: true, with_tools: true }
  },
  {
    client: 'llm', environment: 'sdks', package: 'llm', script: 'llm',
    set: '`api_base: URL/v1` in extra-openai-models.yaml', works: ['chat', 'stream', 'tools offered',
      'structured output'],
    said: { ...TEXT, structured: ['country', 'inhabitants'], offered: true }
  },
  {
    client: 'aider', environment: 'aider', package: 'aider-chat', script: 'aider',
    set: 'model `openai/MODEL`, `--openai-api-base URL/v1`', works: ['ask', 'change', 'stream'],
    said: { asked: true, changed: true }
  }
]

t.test('clients in Python', { skip, timeout: 1_200_000 }, async (t) => {
  const node = await startModels(t)
  for (const row of CLIENTS) {
    const { missing = false } = environment(row.environment)
    await t.test(row.client, { skip: missing }, async (t) => { await check(t, node, row) })
  }
})
