/** Runs `work` on all items, at most `limit` at once. The first failure begins no more and is thrown. */
export async function eachOf<T> (
  items: readonly T[], limit: number, work: (item: T) => Promise<void>
): Promise<void> {
  let next = 0
  const failures: unknown[] = []
  const worker = async (): Promise<void> => {
    while (next < items.length && failures.length === 0) {
      await work(items[next++]!).catch((error: unknown) => { failures.push(error) })
    }
  }
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, worker))
  if (failures.length > 0) throw failures[0]
}
