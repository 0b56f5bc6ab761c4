import { computed, signal } from '@preact/signals'
import { useEffect } from 'preact/hooks'
import { ApiError } from '../api.js'
import { allTransfers, instances, nodes } from '../known.js'
import { ask, caller, origin } from '../link.js'
import { useAsk, useLoaded } from '../ui/loading.js'
import { done } from '../ui/toast.js'
import { isRunning, type Copied, type Download, type Entry, type Wanted } from './data.js'

export const downloads = signal<readonly Download[] | null>(null)
/** Why the downloads could not be read; null in a cluster without a store, which has no downloads. */
export const downloadsError = signal<Error | null>(null)

/** Milliseconds between requests for downloads (not replicated) while one runs, and while none runs. */
const MOVING_MS = 700
const STILL_MS = 5000
const asked = signal(0)

/** Reads the downloads again, if a page shows them. */
export const readDownloads = (): void => { asked.value++ }

/** Reads the downloads now and regularly while a page shows them. */
export function useDownloads (): void {
  const moving = downloads.value?.some(isRunning) === true
  const keys = [origin.value, caller.value, asked.value, moving]
  const { value, error } = useAsk('GET /store/downloads', keys, {}, moving ? MOVING_MS : STILL_MS)
  useEffect(() => {
    const none = error instanceof ApiError && error.reason === 'store_not_configured'
    downloadsError.value = none ? null : error
    if (none) downloads.value = []
    else if (value !== null) downloads.value = value.downloads as Download[]
  }, [value, error])
}

/** Milliseconds from the end of a transfer or download until the nodes' model lists reflect it. */
const SETTLED_MS = 1200
const settled = signal(0)

/** A string that changes when the status of an instance, transfer, download or node changes. */
const key = computed(() => JSON.stringify([
  instances.value.map(({ instanceId, ready }) => [instanceId, ready]),
  allTransfers.value.map(({ nodeId, modelId, status }) => [nodeId, modelId, status]),
  downloads.value?.map(({ modelId, status }) => [modelId, status]),
  nodes.value.map(({ id, live }) => [id, live]), origin.value, caller.value
]))

let settling: ReturnType<typeof setTimeout> | undefined
key.subscribe(() => {
  clearTimeout(settling)
  settling = setTimeout(() => { settled.value++ }, SETTLED_MS)
})

/** A value that changes whenever the node's model lists may have changed. */
export const changes = computed(() => `${key.value} ${settled.value}`)

export function useCatalogue (): ReturnType<typeof useLoaded<{ entries: Entry[], copies: Copied[] }>> {
  return useLoaded(async (abort) => {
    const [{ data }, { copies }] = await Promise.all([
      ask('GET /v1/models', { signal: abort }), ask('GET /models/copies', { signal: abort })
    ])
    // Skip model aliases, whose `root` is another model's id.
    return { entries: data.filter(({ id, root = id }) => root === id) as Entry[], copies }
  }, [changes.value])
}

/** Starts or resumes a download; if no node is the store yet, the requested node becomes it. */
export async function pull ({ modelId, variant, revision }: Wanted): Promise<void> {
  const body = { ...variant === null ? {} : { variant }, ...revision === null ? {} : { revision } }
  const { storeMade } = await ask('POST /store/models/{model_id}/download', { params: [modelId], body })
  if (storeMade !== undefined) done(`This node keeps the store from now on, in ${storeMade}.`)
  readDownloads()
}

/** Pauses or cancels a download; both keep the bytes downloaded so far. */
export async function halt (modelId: string, how: 'pause' | 'cancel'): Promise<void> {
  const pause = how === 'pause' ? 'POST /store/models/{model_id}/download/pause' as const : null
  await ask(pause ?? 'DELETE /store/models/{model_id}/download', { params: [modelId] })
  readDownloads()
}
