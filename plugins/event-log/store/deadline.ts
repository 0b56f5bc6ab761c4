import type { Clock } from '../../../kernel/index.js'

/** The result of the work. Rejects with what `late` returns when that takes longer than `ms`. */
export async function inTime<T> (
  clock: Clock, ms: number, work: Promise<T>, late: () => Error
): Promise<T> {
  let cancel = (): void => {}
  const deadline = new Promise<never>((_resolve, reject) => {
    cancel = clock.after(ms, () => { reject(late()) })
  })
  try {
    return await Promise.race([work, deadline])
  } finally {
    cancel()
  }
}
