import type { EngineChunk } from '../../../kernel/index.js'
import type { ModelWait } from '../language/chunks.js'

/** Waits for a route; an answer that accepts queue chunks gets the progress of its model as such. */
export async function * untilRouted<R extends { taskId: string }> (
  capability: string, find: (onWait: (wait: ModelWait) => void) => Promise<R>
): AsyncGenerator<EngineChunk, R> {
  let tell = (_wait: ModelWait): void => {}
  const finding = find((wait) => { tell(wait) })
  if (!/^(chat|completions?)$/.test(capability)) return await finding
  finding.catch(() => {})
  for (;;) {
    const wait = await Promise.race([finding, new Promise<ModelWait>((resolve) => { tell = resolve })])
    if ('taskId' in wait) return wait
    yield { payload: { choices: [], queue: { place: 0, slots: 0, load: wait } } }
  }
}
