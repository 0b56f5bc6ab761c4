/** A model in half precision in a real runner, asked over the API: what the judge says of it. */
import t from 'tap'
import { startReal, withoutBuild } from '../../plugins/chat/test/real-runner-kit.js'
import { FAMILIES } from './families.js'
import { judge, pulled } from './kit.js'
import { made, modelsFolder } from './make.js'

const TOKENS = 12

t.test('half precision over the API', { skip: withoutBuild }, async (t) => {
  const family = FAMILIES.find(({ name }) => name === 'Qwen3')!
  const folder = await made(await modelsFolder(), family)
  const { card, directory } = await pulled(folder, 'q4f16')
  const { url, ready } = await startReal(t, { card, directory })
  await ready()
  const ask = async (path: string, body: object): Promise<Record<string, unknown>> => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    t.equal(answer.status, 200, path)
    return await answer.json() as Record<string, unknown>
  }
  const { tokens: prompt } = await ask('/v1/tokenize', { model: card.modelId, prompt: 'A red cat' })
  const judged = await judge(folder, 'q4f16', { prompts: [prompt as number[]], tokens: TOKENS })
  const { ids } = judged.answers[0]!
  const { prompt: text } = await ask('/v1/detokenize', { model: card.modelId, tokens: ids })
  const answer = await ask('/v1/completions',
    { model: card.modelId, prompt: 'A red cat', max_tokens: TOKENS, temperature: 0 })
  t.type(text, 'string')
  t.match(answer, { choices: [{ text }] })
})
