/** Agent frameworks, and the client libraries of LibreChat and Continue, against a node. */
import t from 'tap'
import { MODEL, QUESTION, report, script, startRecorded, withoutClients, withoutNode22 } from './kit.js'

/** Parses the JSON that a script prints. */
const said = async (...args: Parameters<typeof script>): Promise<Record<string, unknown>> =>
  JSON.parse(await script(...args)) as Record<string, unknown>

t.test('ai 6.0.325 with @ai-sdk/openai 3.0.141 and @ai-sdk/anthropic 3.0.140', {
  skip: withoutClients
}, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const answers = await said(t, 'ai-providers', `
    import { createAnthropic } from '@ai-sdk/anthropic'
    import { createOpenAI } from '@ai-sdk/openai'
    import { experimental_generateSpeech as speech, generateText, streamText } from 'ai'
    const [url, name, prompt] = process.argv.slice(2)
    globalThis.AI_SDK_LOG_WARNINGS = false
    const openai = createOpenAI({ baseURL: url + '/v1', apiKey: 'none' })
    const anthropic = createAnthropic({ baseURL: url + '/v1', apiKey: 'none' })
    const models = { responses: openai(name), chat: openai.chat(name), messages: anthropic(name) }
    const answers = {}
    for (const [api, model] of Object.entries(models)) {
      const { text, usage } = await generateText({ model, prompt, temperature: 0 })
      let streamed = ''
      for await (const piece of streamText({ model, prompt, temperature: 0 }).textStream) streamed += piece
      answers[api] = { text, same: text === streamed, tokens: usage.inputTokens }
    }
    const { audio } = await speech({ model: openai.speech('tts-1'), text: 'Hello.' })
    console.log(JSON.stringify({ ...answers, sound: audio.mediaType }))
  `, [url, MODEL, QUESTION])
  const right = { text: /svc stop/, same: true, tokens: 9 }
  t.match(answers, { responses: right, chat: right, messages: right, sound: 'audio/mpeg' })
  report(t, {
    client: 'AI SDK, OpenAI and Anthropic', packages: ['ai', '@ai-sdk/openai', '@ai-sdk/anthropic'],
    set: "`baseURL: 'URL/v1'`, `apiKey: 'none'`", works: ['responses', 'chat', 'messages', 'stream', 'speech']
  }, exchanges)
})

t.test('@langchain/anthropic 1.5.11 and @langchain/ollama 1.3.0', { skip: withoutClients }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const answers = await said(t, 'langchain-others', `
    import { ChatAnthropic } from '@langchain/anthropic'
    import { ChatOllama } from '@langchain/ollama'
    const [url, model, question] = process.argv.slice(2)
    const answers = {}
    for (const [api, chat] of Object.entries({
      messages: new ChatAnthropic({
        model, anthropicApiUrl: url, apiKey: 'none', maxTokens: 60, temperature: 0
      }),
      ollama: new ChatOllama({ model, baseUrl: url + '/ollama', temperature: 0 })
    })) {
      const { content } = await chat.invoke(question)
      let streamed = ''
      for await (const piece of await chat.stream(question)) streamed += piece.content
      answers[api] = { content, same: content === streamed }
    }
    console.log(JSON.stringify(answers))
  `, [url, MODEL, QUESTION])
  const right = { content: /svc stop/, same: true }
  t.match(answers, { messages: right, ollama: right })
  report(t, {
    client: 'LangChain (JavaScript), Anthropic and Ollama',
    packages: ['@langchain/anthropic', '@langchain/ollama'],
    set: "`anthropicApiUrl: 'URL'`, `apiKey: 'none'`; `baseUrl: 'URL/ollama'`", works: ['chat', 'stream']
  }, exchanges)
})

t.test('@librechat/agents 3.2.21', { skip: withoutNode22 }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const answers = await said(t, 'librechat', `
    import { Providers, Run } from '@librechat/agents'
    import { HumanMessage } from '@langchain/core/messages'
    const [url, model, question] = process.argv.slice(2)
    const common = { model, apiKey: 'none', streaming: true }
    const answers = []
    for (const llmConfig of [
      { ...common, provider: Providers.OPENAI, configuration: { baseURL: url + '/v1' } },
      { ...common, provider: Providers.ANTHROPIC, clientOptions: { baseURL: url } }
    ]) {
      const graphConfig = { type: 'standard', llmConfig, instructions: '' }
      const run = await Run.create({ runId: 'run', graphConfig, returnContent: true, customHandlers: {} })
      const options = { configurable: { thread_id: 'thread' }, streamMode: 'values', version: 'v2' }
      answers.push(await run.processStream({ messages: [new HumanMessage(question)] }, options))
    }
    console.log(JSON.stringify({ answers }))
  `, [url, MODEL, QUESTION], { newer: true })
  const right = [{ type: 'text', text: /svc stop/ }]
  t.match(answers['answers'], [right, right], 'as its endpoints "custom" and "anthropic" ask')
  report(t, {
    client: 'LibreChat (its library; the program is not run)', packages: ['@librechat/agents'],
    set: 'endpoint `custom`: `baseURL: URL/v1`, `apiKey: none`', works: ['chat', 'stream', 'messages']
  }, exchanges)
})

t.test('@continuedev/openai-adapters 1.37.0', { skip: withoutClients }, async (t) => {
  const { url, exchanges } = await startRecorded(t)
  const answers = await said(t, 'continue', `
    import { constructLlmApi } from '@continuedev/openai-adapters'
    const [url, model, question] = process.argv.slice(2)
    const asked = { model, messages: [{ role: 'user', content: question }], temperature: 0, max_tokens: 60 }
    const { signal } = new AbortController()
    const answers = {}
    for (const [provider, apiBase] of [['openai', url + '/v1'], ['anthropic', url + '/v1/']]) {
      const api = constructLlmApi({ provider, apiBase, apiKey: 'none' })
      const { choices: [{ message: { content } }] } = await api.chatCompletionNonStream(asked, signal)
      let streamed = ''
      for await (const { choices } of api.chatCompletionStream({ ...asked, stream: true }, signal)) {
        streamed += choices[0]?.delta?.content ?? ''
      }
      answers[provider] = { content, same: content === streamed }
    }
    console.log(JSON.stringify(answers))
  `, [url, MODEL, QUESTION])
  const right = { content: /svc stop/, same: true }
  t.match(answers, { openai: right, anthropic: right })
  report(t, {
    client: 'Continue (its library; the extension is not run)', packages: ['@continuedev/openai-adapters'],
    set: 'provider `openai` or `anthropic`: `apiBase: URL/v1`', works: ['chat', 'stream', 'messages']
  }, exchanges)
})
