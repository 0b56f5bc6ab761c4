/** Exchanges of events, with fakes of the language model, the voice and the listener. */
import t from 'tap'
import { kernelError } from '../../../kernel/index.js'
import { bench, lost, segment, sound, soundOf, tooLong, type Client } from './kit.js'

const text = { session: { type: 'realtime', output_modalities: ['text'] } }
const say = (client: Client, words: string): void => {
  client.send('conversation.item.create', { item: { type: 'message', role: 'user',
    content: [{ type: 'input_text', text: words }] } })
  client.send('response.create')
}
const speak = (client: Client, ...marks: number[]): void => {
  for (const mark of marks) client.send('input_audio_buffer.append', { audio: sound(100, mark) })
}
const response = async (client: Client) => (await client.next('response.done'))['response'] as {
  status: string, status_details: { reason?: string, error?: { message: string } } | null, usage: object
  output: { id: string, content: { transcript: string, text: string }[] }[]
}
const bytesOf = (client: Client): number => client.events.reduce((sum, { type, delta }) =>
  sum + (type === 'response.output_audio.delta' ? Buffer.from(String(delta), 'base64').byteLength : 0), 0)
const forever = async (signal: AbortSignal): Promise<void> =>
  await new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => { reject(signal.reason as Error) })
  })

t.test('speech is answered with speech, clause by clause', async (t) => {
  const { open, bodies, rig } = await bench(t)
  const client = await open()
  client.send('session.update', { session: { type: 'realtime', instructions: 'Be kind.',
    audio: { input: { transcription: { model: 'whisper-1' } } } } })
  speak(client, 0, 1, 3, 3, 2)
  const done = await response(client)
  t.same([...new Set(client.types())], [
    'session.created', 'conversation.created', 'session.updated', 'input_audio_buffer.speech_started',
    'conversation.item.input_audio_transcription.delta', 'input_audio_buffer.speech_stopped',
    'input_audio_buffer.committed', 'conversation.item.added', 'conversation.item.done',
    'conversation.item.input_audio_transcription.completed', 'response.created', 'response.output_item.added',
    'response.content_part.added', 'response.output_audio_transcript.delta', 'response.output_audio.delta',
    'response.output_audio.done', 'response.output_audio_transcript.done',
    'response.content_part.done', 'response.output_item.done', 'response.done'
  ])
  t.match(client.events.find(({ type }) => type.endsWith('speech_started')), { audio_start_ms: 200 })
  t.match(client.events.find(({ type }) => type.endsWith('completed')),
    { transcript: 'good morning', content_index: 0, usage: { type: 'duration' } })
  t.match(done, { status: 'completed', usage: { input_tokens: 7, output_tokens: 5, total_tokens: 12 } })
  t.equal(done.output[0]?.content[0]?.transcript, 'Hello there, friend. How are you today?')
  t.equal(bytesOf(client), soundOf('Hello there, friend. How are you today?').byteLength * 2, '24 kHz')
  t.same(bodies[0]?.messages.map(({ content }) => content), ['Be kind.', 'good morning'])
  t.equal(client.events.filter(({ type }) => type === 'response.output_audio.delta').length >= 3, true)
  t.same(rig.logged.filter(({ level }) => level === 'error'), [])
})

t.test('text in, text and function calls out', async (t) => {
  const { open, bodies, script } = await bench(t)
  const client = await open()
  const tool = { type: 'function', name: 'time', description: 'The time', parameters: { type: 'object' } }
  client.send('session.update', { session: { ...text.session, tools: [tool], max_output_tokens: 50,
    tool_choice: { type: 'function', name: 'time' } } })
  script.write = async function * () {
    const call = (id: string | undefined, args: string) => ({ choices: [{ index: 0, delta: { tool_calls: [
      { index: 0, ...id === undefined ? {} : { id, type: 'function' },
        function: { ...id === undefined ? {} : { name: 'time' }, arguments: args } }] } }] })
    yield call('call_1', '{"zone"')
    yield call(undefined, ':"utc"}')
  }
  say(client, 'what time is it?')
  t.match(await client.next('response.function_call_arguments.done'),
    { name: 'time', arguments: '{"zone":"utc"}', call_id: 'call_1', output_index: 0 })
  t.match(await response(client), { output: [{ type: 'function_call', status: 'completed' }] })
  script.write = async function * () { yield 'It is ten.' }
  const output = { type: 'function_call_output', call_id: 'call_1', output: '10' }
  client.send('conversation.item.create', { item: output })
  client.send('response.create')
  t.match(await client.next('response.output_text.done'), { text: 'It is ten.' })
  await response(client)
  t.match(bodies[1], { model: 'a/chat', max_completion_tokens: 50,
    tools: [{ type: 'function', function: { name: 'time' } }],
    tool_choice: { type: 'function', function: { name: 'time' } }, messages: [
      { role: 'user', content: 'what time is it?' },
      { role: 'assistant', content: null,
        tool_calls: [{ id: 'call_1', function: { arguments: '{"zone":"utc"}' } }] },
      { role: 'tool', tool_call_id: 'call_1', content: '10' }] })
})

t.test('without turn detection the client commits; G.711 both ways', async (t) => {
  const { open, script } = await bench(t)
  const client = await open()
  const format = { type: 'audio/pcmu' }
  client.send('session.update', { session: { type: 'realtime', audio: {
    input: { format, turn_detection: null, transcription: { model: 'b/stt', language: 'en' } },
    output: { format } } } })
  const { listen } = script
  const asked: object[] = []
  script.listen = (request, input) => { asked.push(request); return listen(request, input) }
  client.send('input_audio_buffer.commit')
  t.match(await client.next('error'), { error: { code: 'invalid_request', message: /100 ms/ } })
  client.send('input_audio_buffer.append', { audio: Buffer.alloc(1600).toString('base64') })
  client.send('input_audio_buffer.commit')
  client.send('response.create')
  t.match(await client.next('conversation.item.input_audio_transcription.completed'),
    { transcript: 'good evening', usage: { seconds: 0.2 } })
  await response(client)
  t.same(asked, [{ model: 'b/stt', format: 'pcm', sample_rate: 8000, language: 'en' }])
  t.equal(bytesOf(client), 'Hello there, friend. How are you today?'.length * 80)
})

t.test('speech interrupts an answer; what was heard stays in the conversation', async (t) => {
  const { open, bodies, script } = await bench(t)
  const client = await open()
  script.speak = async function * (words, signal) {
    yield soundOf(words)
    if (words.startsWith('friend')) await forever(signal)
  }
  script.write = async function * (_body, signal) {
    yield 'Hello my good old, friend of mine. Never heard.'
    await forever(signal)
  }
  say(client, 'hello')
  await client.next('response.output_audio.delta')
  await client.next('response.output_audio.delta')
  const began = performance.now()
  speak(client, 1)
  const { status, status_details: details, output: [item] } = await response(client)
  t.ok(performance.now() - began < 200)
  t.match({ status, details }, { status: 'cancelled', details: { reason: 'turn_detected' } })
  t.match(item?.content[0]?.transcript, /^Hello my good old, friend of\b/)
  client.send('conversation.item.truncate', { item_id: item?.id, content_index: 0, audio_end_ms: 99 })
  t.match(await client.next('conversation.item.truncated'), { audio_end_ms: 99, item_id: item?.id })
  client.send('conversation.item.truncate', { item_id: item?.id, content_index: 0, audio_end_ms: 99_999 })
  t.match(await client.next('error'), { error: { param: 'audio_end_ms', message: /is 99999, but/ } })
  script.write = async function * () { yield 'Yes.' }
  speak(client, 2)
  t.match(await response(client), { status: 'completed' })
  t.same(bodies[1]?.messages.slice(1), [
    { role: 'assistant', content: 'Hello my' }, { role: 'user', content: 'good morning' }])
})

t.test('a part that is lost is replaced', async (t) => {
  const { open, script, rig } = await bench(t)
  const client = await open()
  const { listen } = script
  let listeners = 0
  script.listen = async function * (request, input) {
    const isFirst = listeners++ === 0
    for await (const event of listen(request, input)) {
      yield event
      if (isFirst) throw lost()
    }
  }
  let writers = 0
  script.write = async function * () {
    if (writers++ === 0) throw lost()
    yield 'One two three. '
    if (writers === 3) throw lost()
  }
  let voices = 0
  script.speak = async function * (words) {
    const whole = soundOf(words)
    yield whole.subarray(0, 1000)
    if (voices++ === 0) throw lost()
    yield whole.subarray(1000)
  }
  speak(client, 1, 0, 2)
  t.match(await response(client),
    { status: 'completed', output: [{ content: [{ transcript: 'One two three. ' }] }] })
  t.equal(client.types().filter((type) => type.endsWith('speech_started')).length, 1)
  t.same([listeners, writers, voices], [2, 2, 2])
  t.equal(bytesOf(client), soundOf('One two three.').byteLength * 2)
  client.send('response.create')
  t.match(await response(client), { status: 'failed', status_details: { reason: 'instance_lost' } })
  client.send('response.create')
  await client.next('response.created')
  await client.next('response.output_audio.delta')
  t.match(await response(client), { status: 'completed' })
  t.same(rig.logged.filter(({ level }) => level === 'error'), [])
})

t.test('a new session of the cluster ends the response, and the conversation goes on', async (t) => {
  const { open, script, rig } = await bench(t)
  const client = await open()
  client.send('session.update', text)
  const { write } = script
  script.write = async function * (_body, signal) { yield 'Half'; await forever(signal) }
  say(client, 'hello')
  await client.next('response.output_text.delta')
  rig.kernel.commands.abortAll('session_changed')
  t.match(await response(client), { status: 'failed',
    status_details: { reason: 'session_changed', type: 'failed', error: { code: 'session_changed' } } })
  script.write = write
  client.send('response.create')
  t.match(await response(client), { status: 'completed' })
})

t.test('items are placed, read, removed; a long conversation loses its oldest messages', async (t) => {
  const { open, script, bodies } = await bench(t)
  const client = await open()
  client.send('session.update', text)
  const item = (id: string, words: string, previous_item_id?: string): void => {
    client.send('conversation.item.create', { previous_item_id, item: { id, type: 'message', role: 'user',
      content: [{ type: 'input_text', text: words }] } })
  }
  item('b', 'two')
  item('a', 'one', 'root')
  item('c', 'three', 'b')
  item('x', 'gone', 'a')
  client.send('conversation.item.delete', { item_id: 'x' })
  client.send('conversation.item.retrieve', { item_id: 'b' })
  t.match(await client.next('conversation.item.deleted'), { item_id: 'x' })
  t.match(await client.next('conversation.item.retrieved'), { item: { id: 'b', content: [{ text: 'two' }] } })
  script.write = async function * ({ messages }) {
    if (messages.length > 2) throw tooLong()
    yield 'ok'
  }
  client.send('response.create')
  await response(client)
  const said = bodies.map(({ messages }) => messages.map(({ content }) => content))
  t.same(said, [['one', 'two', 'three'], ['three']])
  client.send('response.create', { response: { conversation: 'none', metadata: { topic: 'x' }, input: [
    { type: 'item_reference', id: 'a' },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: 'y' }] }] } })
  t.match(await response(client), { conversation_id: null, metadata: { topic: 'x' }, status: 'completed' })
  t.same(bodies.at(-1)?.messages.map(({ content }) => content), ['one', 'y'])
})

t.test('a transcription has no answers', async (t) => {
  const { open, script } = await bench(t)
  const client = await open('?intent=transcription')
  t.match(client.events[0], { session: { type: 'transcription', audio: { output: undefined } } })
  script.listen = async function * () {
    yield segment('a', { final: true })
    yield * []
  }
  speak(client, 0)
  t.match(await client.next('conversation.item.input_audio_transcription.completed'), { transcript: 'a' })
  client.send('response.create')
  t.match(await client.next('error'), { error: { message: /session of type realtime/ } })
})

t.test('a model that is unknown, or no language model, is told at once', async (t) => {
  const { open } = await bench(t)
  for (const model of ['nix', 'a/voice']) {
    const client = await open(`?model=${model}`)
    t.match(await client.next('error'), { error: { param: 'model', message: /no language model/ } })
  }
  for (const path of ['?model=alias', '?model=gpt-realtime', '?model=nix&intent=transcription']) {
    const client = await open(path)
    client.send('input_audio_buffer.clear')
    await client.next('input_audio_buffer.cleared')
    t.notOk(client.types().includes('error'), path)
  }
})

t.test('errors name the field, and the socket stays', async (t) => {
  const { open, script, rig } = await bench(t)
  const client = await open()
  const image = { type: 'message', role: 'user', content: [{ type: 'input_image', image_url: 'data:,' }] }
  const cases: [string, object, object][] = [
    ['nonsense', {}, { param: 'type', message: /"nonsense" is unknown/ }],
    ['conversation.item.create', { item: image }, { param: 'item.content.0', message: /images are not/ }],
    ['response.create', { response: { input: [image] } }, { param: 'response.input.0.content.0' }],
    ['input_audio_buffer.append', { audio: 'AAAA' }, { param: 'audio', message: /16-bit/ }],
    ['session.update', { session: {} }, { message: /type/ }],
    ['session.update', { session: { ...text.session, audio: { output: { speed: 9 } } } },
      { message: /speed/ }],
    ['session.update', { session: { ...text.session, tools: [{ type: 'mcp', name: 'x' }] } },
      { message: /tools/ }],
    ['input_audio_buffer.append', { audio: '****' }, { param: 'audio' }],
    ['conversation.item.create', { item: { type: 'message', content: [] } }, { param: 'item.role' }],
    ['conversation.item.delete', { item_id: 'nix' }, { param: 'item_id' }],
    ['conversation.item.truncate', { item_id: 'nix', content_index: 0, audio_end_ms: 1 },
      { param: 'item_id' }],
    ['response.cancel', {}, { param: 'response_id', message: /no response that is active$/ }],
    ['response.create', { response: { output_modalities: ['audio', 'text'] } },
      { message: /output_modalities/ }]
  ]
  for (const [type, fields, error] of cases) {
    client.send(type, { event_id: type, ...fields })
    const wanted = { event_id: type, type: 'invalid_request_error', ...error }
    t.match(await client.next('error'), { error: wanted }, type)
  }
  const deep = '{"a":'.repeat(70) + '1' + '}'.repeat(70)
  const tool = `{"type":"function","name":"f","parameters":${deep}}`
  const messages: [string | Buffer, object][] = [
    ['{', { message: 'The message is not JSON.' }], [Buffer.from('{}'), { message: /not JSON/ }],
    ['null', { param: 'type' }], ['{"type":{"toString":1}}', { param: 'type' }],
    [`{"type":"session.update","session":{"type":"realtime","tools":[${tool}]}}`, { message: /64 levels/ }],
    ['['.repeat(500_000) + ']'.repeat(500_000), { message: /64 levels/ }]
  ]
  for (const [message, error] of messages) {
    client.socket.send(message)
    t.match(await client.next('error'), { error: { code: 'invalid_request', ...error } })
  }
  t.same(rig.logged.filter(({ level }) => level === 'error'), [])
  script.write = async function * (_body, signal) { await forever(signal); yield * [] }
  client.send('response.create')
  client.send('response.create')
  t.match(await client.next('error'), { error: { code: 'conversation_already_has_active_response' } })
  client.send('output_audio_buffer.clear')
  t.match(await response(client), { status: 'cancelled', status_details: { reason: 'client_cancelled' } })
})

t.test('a part that is missing is told with the next command', async (t) => {
  const { open, script } = await bench(t)
  const client = await open()
  const none = (what: string) =>
    kernelError('no_instance', `No ${what} is placed.`, { remedy: `\`svc place ${what}\`.` })
  script.listen = async function * () { throw none('ear'); yield * [] }
  speak(client, 1)
  t.match(await client.next('error'),
    { error: { code: 'no_instance', message: 'No ear is placed. `svc place ear`.' } })
  script.speak = async function * () { throw none('voice'); yield * [] }
  say(client, 'hello')
  t.match(await response(client), { status: 'failed', status_details: {
    error: { code: 'no_instance', message: /svc place voice/ } } })
  script.write = async function * () { throw new Error('secret cause'); yield * [] }
  say(client, 'hello')
  const { status_details: details } = await response(client)
  t.notMatch(JSON.stringify(details), /secret/)
})
