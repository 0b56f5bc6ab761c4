/** A real model produces the same text with and without a drafter, and the drafter contributes part of it. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { ask } from '../../plugins/llama-cpp/test/llama-kit.js'
import { folder, sparing, startNode, svc } from '../node/kit.js'
import { drafted, loaded, programs, skipStories, storyteller } from './kit.js'

const greedy = { prompt: 'Once upon a time', max_tokens: 100, temperature: 0 }

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

t.test('both pulled as one folder; svc run chats', { skip: skipStories }, async (t) => {
  const models = folder(t)
  cpSync(drafted(t).directory, join(models, 'stories'), { recursive: true })
  const node = await startNode(t, {
    config: { plugins: { placement: { autoplace: [] } }, model_store: { hub: { enabled: false } } },
    env: { SVC_LLAMA_SERVER_BIN: join(programs, 'llama-server'), ...sparing(0) }
  })
  const at = ['--home', node.home, '--url', node.url]
  const pulled = await svc(['pull', join(models, 'stories'), ...at])
  t.equal(pulled.status, 0, pulled.stderr)
  t.match((await svc(['show', 'local/stories', ...at])).stdout, /draft-s260k\.gguf +assistant/)
  const ran = await svc(
    ['run', 'local/stories', 'Once upon a time', '--temperature', '0', '--max-tokens', '20', ...at])
  t.match(ran, { status: 0, stdout: /\w/, stderr: /chat template/i }, 'placed by it, and asked in ChatML')
})
