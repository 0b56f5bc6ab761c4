import { answering, calling, card, saying, startChat, type Kit } from './api-kit.js'
import { encoderSession, engineOpen } from './embed-kit.js'
import type { Test } from 'tap'

/** The plugin with engines that answer all recorded requests. */
export async function startForRecorded (t: Test): Promise<Kit> {
  const counts = answering({ payload: { tokens: [1, 2], count: 2, context_length: 128 } } as never)
  const embeds = engineOpen(await encoderSession(t.testdir()))
  const writes = saying('Hello', ' there.')
  const fills = saying('{"city": ', '"Oslo"}')
  return await startChat(t, {
    cards: [{ ...card, tasks: ['chat', 'completions', 'embeddings'] }],
    open (task, ...more) {
      const { tools, response_format: form } = task.payload
      if (task.kind === 'embed') return embeds(task, ...more)
      if (task.kind === 'tokenize') return counts(task, ...more)
      return (tools !== undefined ? calling() : form !== undefined ? fills : writes)(task, ...more)
    }
  })
}
