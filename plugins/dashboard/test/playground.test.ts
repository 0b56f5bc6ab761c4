import { execFileSync } from 'node:child_process'
import t from 'tap'
import { tooMany } from '../page/playground/bounds.js'
import {
  add, afterReload, choose, isOpen, newConversation, newLane, noSettings, openCalls, pathOf, pathTo,
  siblingsOf, titleOf, type Answer, type Lane, type Message, type ToolCall
} from '../page/playground/conversation.js'
import { Incoming } from '../page/playground/incoming.js'
import { peaksOf } from '../page/playground/peaks.js'
import { chatBody, chatLines, quote, readTools, speechLines } from '../page/playground/request.js'
import { readFigure, withFigure } from '../page/playground/sampling.js'

const user = (id: string, parent: string | null, content = id): Message =>
  ({ id, parent, role: 'user', content })

function assistant (
  id: string, parent: string, more: Partial<Answer & Message> = {}
): Message {
  const { toolCalls = [], state = 'done', content = id } = more
  return {
    id, parent, role: 'assistant', content,
    answer: {
      model: 'acme/model', sent: noSettings, state, note: null, remedy: null, reasoning: '', toolCalls,
      finish: null, commandId: null, traced: false, node: '', firstMs: null, totalMs: null, tokens: null,
      perSecond: null
    }
  }
}

const lane = (...messages: Message[]): Lane => messages.reduce(add, newLane('acme/model'))
const ids = (messages: Message[]): string => messages.map(({ id }) => id).join(' ')
const weather: ToolCall = { id: 'c1', name: 'weather', arguments: '{"place":"Oslo"}' }

t.test('a conversation branches, and nothing that was said is lost', (t) => {
  const first = lane(user('q1', null), assistant('a1', 'q1'), user('q2', 'a1'), assistant('a2', 'q2'))
  t.equal(ids(pathOf(first)), 'q1 a1 q2 a2')
  const edited = add(add(first, user('q3', 'a1')), assistant('a3', 'q3'))
  t.equal(ids(pathOf(edited)), 'q1 a1 q3 a3')
  t.equal(ids(siblingsOf(edited, user('q3', 'a1'))), 'q2 q3')
  t.equal(ids(pathOf(choose(edited, user('q2', 'a1')))), 'q1 a1 q2 a2', 'the way back')
  t.equal(ids(pathTo(edited, 'a2')), 'q1 a1 q2 a2', 'also when another branch is shown')
  t.equal(ids(pathOf(first)), 'q1 a1 q2 a2', 'the former value is as it was')
  t.end()
})

t.test('calls wait until each has a result', (t) => {
  const second = { ...weather, id: 'c2' }
  const asked = lane(user('q1', null), assistant('a1', 'q1', { toolCalls: [weather, second] }))
  const result: Message = { id: 'r1', parent: 'a1', role: 'tool', content: 'rain', callId: 'c1' }
  t.same(openCalls(pathOf(asked)), [weather, second])
  t.same(openCalls(pathOf(add(asked, result))), [second])
  t.same(openCalls(pathOf(lane(user('q1', null)))), [])
  t.end()
})

t.test('what was being written when the page was closed is over', (t) => {
  const open = { ...newConversation('c', 'acme/model'), lanes: [
    lane(user('q1', null), assistant('a1', 'q1', { state: 'open', content: 'half of' }))
  ] }
  t.ok(isOpen(open))
  const after = afterReload(open)
  t.notOk(isOpen(after))
  t.match(pathOf(after.lanes[0]!)[1], { content: 'half of', answer: { state: 'lost', note: /closed/ } })
  t.end()
})

t.test('titles are one short line', (t) => {
  t.same(['  Why?\nBecause.', '', 'x'.repeat(60)].map(titleOf), ['Why?', 'An image', `${'x'.repeat(47)}…`])
  t.end()
})

t.test('what is kept is bounded, the newest always stays', (t) => {
  const sizes = [1, 2, 3].map((n) => ({ id: `${n}`, changedAt: n, bytes: 10 }))
  t.same(tooMany(sizes, 3, 100), [])
  t.same(tooMany(sizes, 2, 100), ['1'])
  t.same(tooMany(sizes, 3, 20), ['1'])
  t.same(tooMany(sizes, 3, 5), ['2', '1'])
  t.same(tooMany([], 3, 5), [])
  t.end()
})

t.test('the body of a request holds the shown messages and the settings', (t) => {
  const settings = { system: 'Be brief.', sampling: { temperature: 0 }, tools: [] }
  const image = 'data:image/png;base64,AAAA'
  const path = [
    { ...user('q1', null, 'See?'), images: [image] },
    assistant('a1', 'q1', { content: '', toolCalls: [weather] }),
    { id: 'r1', parent: 'a1', role: 'tool' as const, content: 'rain', callId: 'c1' },
    assistant('a2', 'r1', { content: '', state: 'lost' }), user('q2', 'a2', 'And now?')
  ]
  t.same(chatBody('acme/model', settings, path), {
    model: 'acme/model', max_tokens: 4096, temperature: 0, stream: true,
    stream_options: { include_usage: true },
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: [
        { type: 'text', text: 'See?' }, { type: 'image_url', image_url: { url: image } }
      ] },
      { role: 'assistant', content: null, tool_calls: [
        { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"place":"Oslo"}' } }
      ] },
      { role: 'tool', tool_call_id: 'c1', content: 'rain' },
      { role: 'user', content: 'And now?' }
    ]
  })
  t.end()
})

t.test('tools are read, or the text says what is wrong', (t) => {
  const tool = { type: 'function', function: { name: 'weather' } }
  t.same(readTools(' '), [])
  const bare = { type: 'function', function: { name: 'bare' } }
  t.same(readTools(JSON.stringify([tool, { name: 'bare' }])), [tool, bare])
  for (const wrong of ['{', '{}', '[{}]', '[null]', '[{"function":{"name":""}}]']) {
    t.type(readTools(wrong), 'string', wrong)
  }
  t.end()
})

t.test('figures keep to the bounds of the API', (t) => {
  t.equal(readFigure('temperature', ' '), undefined)
  t.equal(readFigure('temperature', '0.7'), 0.7)
  t.equal(readFigure('seed', '-3'), -3)
  const wrong = [['temperature', '-1'], ['top_k', '1.5'], ['max_tokens', '0'], ['top_p', 'x']] as const
  for (const [name, text] of wrong) {
    t.type(readFigure(name, text), 'string', `${name} ${text}`)
  }
  t.same(withFigure({ temperature: 1, seed: 2 }, 'seed', undefined), { temperature: 1 })
  t.same(withFigure({}, 'seed', 0), { seed: 0 })
  t.end()
})

const shown = {
  origin: 'http://127.0.0.1:52415', path: '/v1/chat/completions', withToken: false,
  body: chatBody(
    'acme/model', { ...noSettings, sampling: { top_k: 4 } }, [user('q', null, "It's `so` $HOME")])
}

t.test('requests as lines for other programs carry no token, and any text as it is', (t) => {
  const said = "It's `so` $HOME \\ \"two\"\nlines"
  t.equal(execFileSync('sh', ['-c', `printf %s ${quote(said)}`], { encoding: 'utf8' }), said)
  const names = chatLines(shown).map(({ name }) => name)
  t.same(names, ['curl', 'svc call', 'OpenAI (Python)', 'OpenAI (JavaScript)'])
  const plain = { ...shown, body: chatBody('acme/model', noSettings, [user('q', null, 'Why?')]) }
  const code = "svc --url http://127.0.0.1:52415 run acme/model 'Why?' --max-tokens 4096"
  t.match(chatLines(plain)[1], { name: 'svc run', code })
  const lines = chatLines({ ...shown, withToken: true })
  t.match(lines[0]?.code, 'Bearer $SVC_TOKEN')
  t.match(lines[2]?.code, /os\.environ\["SVC_TOKEN"\][^]*extra_body=\{\n {8}"top_k": 4,/)
  t.match(lines[3]?.code, 'process.env.SVC_TOKEN')
  t.end()
})

t.test('the body in a line is the one that is sent', (t) => {
  const given = /-d ('[^]*')$/.exec(chatLines(shown)[0]!.code)![1]!
  const read = execFileSync('sh', ['-c', `printf %s ${given}`], { encoding: 'utf8' })
  t.same(JSON.parse(read), shown.body)
  const image = `data:image/png;base64,${'A'.repeat(4000)}`
  const body = chatBody('acme/model', noSettings, [{ ...user('q', null), images: [image] }])
  for (const { name, code } of chatLines({ ...shown, body })) {
    t.notMatch(code, 'AAAA', name)
    t.match(code, 'data:image/png;base64,BASE64_OF_THE_IMAGE', name)
  }
  t.end()
})

t.test('speech has lines for each program', (t) => {
  const body = {
    model: 'svc/voice-en', input: 'Hello there', response_format: 'mp3', voice: 'slt', speed: 1.5
  }
  const lines = speechLines({ ...shown, path: '/v1/audio/speech', body })
  t.match(lines[1]?.code, "svc --url http://127.0.0.1:52415 say 'Hello there' --model svc/voice-en " +
  '--voice slt --speed 1.5 -o speech.mp3')
  t.match(lines[2]?.code, /call tts@1\.0\.0 --payload '\{[^]*"text": "Hello there"[^]*-o speech\.mp3/)
  t.end()
})

const dataEvent = (data: string) => ({ kind: 'event', type: 'message', data, id: null }) as const
const event = (value: unknown) => dataEvent(JSON.stringify(value))
const delta = (value: object) => event({ choices: [{ delta: value }] })
const comment = (text: string) => ({ kind: 'comment', text }) as const

t.test('an answer is gathered from its events', (t) => {
  const incoming = new Incoming()
  t.notOk(incoming.take(comment('keep-alive')))
  t.notOk(incoming.take(delta({ role: 'assistant', content: '' })), 'nothing to show yet')
  t.ok(incoming.take(delta({ reasoning_content: 'Hm. ' })))
  t.ok(incoming.take(delta({ content: 'Yes' })))
  const begun = { index: 0, id: 'c1', function: { name: 'weather', arguments: '{"pl' } }
  t.ok(incoming.take(delta({ tool_calls: [begun] })))
  incoming.take(delta({ tool_calls: [{ index: 0, function: { arguments: 'ace":"Oslo"}' } }] }))
  incoming.take(event({ choices: [{ delta: {}, finish_reason: 'tool_calls' }] }))
  incoming.take(event({ choices: [], usage: { completion_tokens: 7 } }))
  incoming.take(comment('generation_stats {"generation_tps":12.5}'))
  t.notOk(incoming.complete)
  incoming.take(dataEvent('[DONE]'))
  t.match(incoming, {
    content: 'Yes', reasoning: 'Hm. ', toolCalls: [weather], finish: 'tool_calls', tokens: 7, perSecond: 12.5,
    complete: true, failure: null
  })
  const text = new Incoming()
  t.ok(text.take(event({ choices: [{ text: 'of a completion' }] })))
  t.equal(text.content, 'of a completion')
  t.end()
})

t.test('an error in the stream ends the answer with its words', (t) => {
  const incoming = new Incoming()
  incoming.take(delta({ content: 'Half' }))
  const error = { message: 'Lost.', retryable: true, details: { remedy: 'Again.' } }
  t.notOk(incoming.take(event({ error })))
  t.match(incoming, { content: 'Half', failure: { message: 'Lost.', retryable: true, remedy: 'Again.' } })
  t.end()
})

t.test('a waveform has the loudest of each slice', (t) => {
  t.same(peaksOf(new Float32Array([0, 0.5, -0.75, 0.25, 0, -2]), 3), [0.5, 0.75, 1])
  t.same(peaksOf(new Float32Array([0.5]), 2), [0.5, 0.5])
  t.same(peaksOf(new Float32Array(), 2), [0, 0])
  t.end()
})
