// Prepares images for messages: small enough for a request, and in a format that the API accepts.

/** Image formats of the API; other formats are converted. */
const READ = ['image/png', 'image/jpeg', 'image/gif', 'image/bmp']
/** Limit in bytes per image: a request may have 4 MiB, and base64 makes an image a third larger. */
const MOST_BYTES = 700 * 1024
const LONGEST_SIDE = 1536

export async function readImage (file: Blob): Promise<string> {
  if (READ.includes(file.type) && file.size <= MOST_BYTES) return await dataUrl(file)
  const bitmap = await createImageBitmap(file).catch(() => null)
  if (bitmap === null) throw new Error('This is not an image that the browser can read.')
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height))
  const canvas = document.createElement('canvas')
  canvas.width = Math.max(1, Math.round(bitmap.width * scale))
  canvas.height = Math.max(1, Math.round(bitmap.height * scale))
  canvas.getContext('2d')!.drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  bitmap.close()
  return canvas.toDataURL('image/jpeg', 0.85)
}

function dataUrl (file: Blob): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => { resolve(reader.result as string) }
    reader.onerror = () => { reject(reader.error ?? new Error('The image cannot be read.')) }
    reader.readAsDataURL(file)
  })
}
