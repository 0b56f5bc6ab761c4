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

/** Reports no problem if the cluster has no store or the caller has no access to it. */
function storeProblem ({ api }: VerbError): Check[] {
  // A node that has just joined does not know the store host yet.
  if (api?.reason !== 'store_unreachable' || api.details?.['learning'] === true) return []
  const remedy = api.details?.['remedy']
  const look = 'Check the store host: `svc nodes`.'
  return [fail('store', api.message, typeof remedy === 'string' ? remedy : look,
    { code: 'store_unreachable' })]
}

export function checkStore ({ freeBytes, totalBytes }: StoreRoom): Check {
  return judgeDisk(freeBytes, totalBytes, { name: 'store', remedy:
    'Remove unneeded models from the store (`svc ls`, `svc rm MODEL`), or use a larger disk.' })
}

export function checkVolume ({ diskFreeBytes, diskTotalBytes }: Volume): Check {
  return judgeDisk(diskFreeBytes, diskTotalBytes,
    { name: 'staging disk', remedy: 'Remove unused staged copies: `svc purge`.' })
}
