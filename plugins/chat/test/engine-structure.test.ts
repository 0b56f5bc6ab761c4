/** Structured output of a model that reasons first, and the text that ended an answer. */
import t from 'tap'
import { decoderSession } from './engine-host.js'
import { ask } from './engine-kit.js'
import { byteLevelTokenizer } from './text-kit.js'

const REASONING_TEMPLATE = '{% for m in messages %}{{ m.content }}{% endfor %}' +
  '{% if add_generation_prompt %}{{ "|" }}{% if enable_thinking %}<think>{% endif %}{% endif %}'

const files = {
  'tokenizer.json': byteLevelTokenizer(0),
  'tokenizer_config.json': { eos_token: '<|end|>', chat_template: REASONING_TEMPLATE },
  'config.json': { model_type: 'llama', eos_token_id: 0, max_position_embeddings: 128 }
}
const shape = { vocabulary: 260 }

t.test('the reasoning before an answer is free, the answer is not', async (t) => {
  const session = await decoderSession(t.testdir(), { files, shape })
  const schema = { type: 'object', properties: { a: { enum: [1, 2] } }, required: ['a'] }
  const params = { temperature: 1, grammar: { kind: 'schema', schema } }
  const messages = [{ role: 'user', content: 'hi' }]
  for (let seed = 0; seed < 5; seed++) {
    const task = { messages, max_tokens: 60, params: { ...params, seed } }
    const { text } = await ask(session, 'chat', { ...task, template_variables: { enable_thinking: true } })
    const [thought = '', said = ''] = text.split('</think>')
    t.notMatch(thought, /^\s*\{\s*"a"/, 'no grammar yet')
    t.ok([1, 2].includes((JSON.parse(said) as { a: number }).a), said)
    const { text: plain } = await ask(session, 'chat', task)
    // A prompt that leaves it open lets the model reason first, or not.
    const answer = plain.split('</think>').at(-1) as string
    t.ok([1, 2].includes((JSON.parse(answer) as { a: number }).a), plain)
    if (answer !== plain) t.match(plain, /^\s*<think>/)
  }
})

t.test('the stop text is told with the end', async (t) => {
  const session = await decoderSession(t.testdir(), { files, shape })
  const task = { prompt: 'abc', max_tokens: 12, params: { temperature: 0 } }
  const { text, done } = await ask(session, 'completion', task)
  t.match(done, { finish_reason: 'length', stop_text: null })
  const stop = text.slice(2, 4)
  const cut = await ask(session, 'completion', { ...task, stop: ['never', stop] })
  t.equal(cut.text, text.slice(0, text.indexOf(stop)))
  t.match(cut.done, { finish_reason: 'stop', stop_text: stop })
})
