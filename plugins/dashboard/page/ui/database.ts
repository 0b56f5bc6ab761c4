export interface Place { database: string, store: string, keyPath?: string }

const opened = new Map<string, Promise<IDBDatabase>>()

function open ({ database, store, keyPath }: Place): Promise<IDBDatabase> {
  const known = opened.get(database)
  if (known !== undefined) return known
  const opening = new Promise<IDBDatabase>((resolve, reject) => {
    const request = indexedDB.open(database, 1)
    request.onupgradeneeded = () => {
      request.result.createObjectStore(store, keyPath === undefined ? {} : { keyPath })
    }
    request.onsuccess = () => { resolve(request.result) }
    request.onerror = () => { reject(request.error ?? keepsNothing()) }
  })
  opened.set(database, opening)
  return opening
}

/** Runs `act` within one transaction; resolves with the result of its last request. */
export async function within<T> (
  place: Place, mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>
): Promise<T> {
  const transaction = (await open(place)).transaction(place.store, mode)
  const request = act(transaction.objectStore(place.store))
  await new Promise<void>((resolve, reject) => {
    transaction.oncomplete = () => { resolve() }
    transaction.onabort = () => { reject(transaction.error ?? keepsNothing()) }
  })
  return request.result
}

const keepsNothing = (): Error => new Error('This browser keeps nothing for this page.')
