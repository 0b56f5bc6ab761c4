import { fail, isVerbError, judgeDisk } from '../../kernel/cli/index.js'
import type { Check, Checker, VerbError } from '../../kernel/cli/index.js'
import type { Answers } from './routes.js'

type StoreRoom = Pick<Answers['health'], 'freeBytes' | 'totalBytes'>
type Volume = Pick<Answers['storage'], 'diskFreeBytes' | 'diskTotalBytes'>

export default {
  async run ({ look }) {
    const [store, volume] = await Promise.all([
      look<StoreRoom>('/store/health'), look<Volume>('/store/storage')
    ])
    return [
      ...isVerbError(store) ? storeProblem(store) : [checkStore(store)],
      ...isVerbError(volume) ? [] : [checkVolume(volume)]
    ]
  }
} satisfies Checker

/** A cluster without a store, or a caller who may not see it, is no fault. */
function storeProblem ({ api }: VerbError): Check[] {
  // A node that is just meeting the others is not told yet where the store is.
  if (api?.reason !== 'store_unreachable' || api.details?.['learning'] === true) return []
  const remedy = api.details?.['remedy']
  const look = 'Look at the node that has the store: `svc nodes`.'
  return [fail('store', api.message, typeof remedy === 'string' ? remedy : look,
    { code: 'store_unreachable' })]
}

export function checkStore ({ freeBytes, totalBytes }: StoreRoom): Check {
  return judgeDisk(freeBytes, totalBytes, { name: 'store', remedy:
    'Remove models from the store that nobody needs (`svc ls`, `svc rm MODEL`), or give it a larger disk.' })
}

export function checkVolume ({ diskFreeBytes, diskTotalBytes }: Volume): Check {
  return judgeDisk(diskFreeBytes, diskTotalBytes,
    { name: 'staging disk', remedy: 'Remove staged copies that are not in use: `svc purge`.' })
}
