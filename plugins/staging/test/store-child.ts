/**
 * Child process of store-crash.test.ts: opens a store, starts a download unless one resumes, and prints the
 * number of downloaded bytes. With `deadly`, it kills itself when it derives the card.
 */
import { systemClock } from '../../../kernel/index.js'
import { ModelRoot } from '../files/root.js'
import { createHubClient } from '../hub/client.js'
import { FreeSpace } from '../space/free-space.js'
import { Store } from '../store/store.js'
import { derive, memoryLog } from './store-kit.js'

interface Setup {
  folder: string, modelId: string, source?: string, url?: string, cdnHost?: string, deadly?: boolean
}

const { folder, modelId, source, url, cdnHost, deadly = false } = JSON.parse(process.argv[2] ?? '') as Setup
const random = (): number => 0
const store = new Store({
  root: new ModelRoot({ root: folder, clock: systemClock, role: 'store' }),
  clock: systemClock,
  random,
  hub: url === undefined
    ? null
    : createHubClient({ url, redirectHosts: [cdnHost ?? ''], clock: systemClock, random }),
  derive: async (...about) => {
    if (deadly) process.kill(process.pid, 'SIGKILL')
    return await derive(...about)
  },
  freeSpace: new FreeSpace(0),
  local: { bundled: new Map() }, hubCache: null,
  fromNode: async () => { throw new Error('there are no other nodes') },
  log: memoryLog(),
  onChange: () => {}
})
await store.open()
if ((source ?? url) !== undefined && store.status(modelId).status === 'not_found') {
  store.start(modelId, source === undefined ? {} : { source })
}
setInterval(() => { process.stdout.write(`${store.status(modelId).downloadedBytes}\n`) }, 5)
