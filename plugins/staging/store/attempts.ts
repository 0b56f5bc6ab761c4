/** Counts starts of work on a model that ended with the process, so that it is not resumed for ever. */
import { putOwnText, readOwn } from '../files/open.js'
import { StoreError } from './types.js'

/** Work that ended with the process this many times is parked. */
export const MOST_ATTEMPTS = 2
const NAME = '.svc-attempts.json'
const MAX_BYTES = 1024 * 1024

/** Runs `work`, counted in a file of the store's folder `root`. @throws StoreError `parked` */
export async function attempt (root: string, modelId: string, work: () => Promise<void>): Promise<void> {
  const { [modelId]: before = 0, ...others } = await readOwn(root, NAME, MAX_BYTES)
    .then((text) => JSON.parse(text) as Record<string, number>).catch(() => ({} as Record<string, number>))
  if (before >= MOST_ATTEMPTS) {
    throw new StoreError('parked', `taking it in ended the process ${before} times, so it is left alone; ` +
      `remove it, or ${root}/${NAME} to have it tried again at the next start`)
  }
  await note(root, { ...others, [modelId]: before + 1 })
  try {
    await work()
  } finally {
    await note(root, others)
  }
}

const note = async (root: string, attempts: Record<string, number>): Promise<void> =>
  await putOwnText(root, NAME, JSON.stringify(attempts))
