/** A real drafter beside a real model: the same text, of which the drafter has guessed a part. */
import t from 'tap'
import { ask } from '../../plugins/chat/test/llama-kit.js'
import { drafted, loaded, skipStories, storyteller } from './kit.js'

const greedy = { prompt: 'Once upon a time', max_tokens: 100, params: { temperature: 0 } }

t.test('a drafter', { skip: skipStories }, async (t) => {
  let alone = ''
  await t.test('alone', async (t) => {
    const { session } = await loaded(t, storyteller())
    alone = (await ask(session, 'completion', greedy)).text
    t.match(alone, /^, there was a /)
  })
  await t.test('beside it', async (t) => {
    const { session, server } = await loaded(t, drafted(t))
    const { text, done } = await ask(session, 'completion', greedy)
    t.equal(text, alone, 'the text is that of the model alone')
    t.match(done, { finish_reason: 'length', usage: { completion_tokens: 100 } })
    const body = { prompt: greedy.prompt, n_predict: 100, temperature: 0, cache_prompt: false }
    const { timings } = await server('/completion', body) as { timings: Record<string, number> }
    t.ok(timings['draft_n']! > 0, 'it drafts')
    t.ok(timings['draft_n_accepted']! > 0, 'what the model takes')
  })
})
