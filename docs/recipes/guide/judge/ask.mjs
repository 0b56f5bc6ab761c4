// Asks the exported model through svc's own engine, with greedy decoding.
import { readCard } from '../../../../plugins/runners/cards/card.ts'
import engine from '../../../../plugins/llama-cpp/embedded/index.ts'

const env = { progress () {}, log () {}, work: async (_label, _units, call) => await call() }

/** Returns a function that answers a question or a conversation; `directory` has the model and its card. */
export async function asker (directory) {
  const session = await engine.load(
    { card: readCard(directory), directory, backend: 'cpu', threads: 1, options: {} }, env)
  const { signal } = new AbortController()
  return async (question) => {
    let text = ''
    const messages = typeof question === 'string' ? [{ role: 'user', content: question }] : question
    const payload = { messages, max_tokens: 160 }
    for await (const { payload: piece } of session.run({ kind: 'chat', payload }, signal)) {
      text += piece.choices[0]?.delta?.content ?? ''
    }
    return text
  }
}
