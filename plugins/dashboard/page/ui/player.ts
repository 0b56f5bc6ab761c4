// Plays sound while it is generated if the browser can; otherwise once it is complete.

/** Seconds of played sound to keep when the browser's buffer is full. */
const BEHIND_S = 10

export const canStream = (type: string): boolean =>
  'MediaSource' in globalThis && MediaSource.isTypeSupported(type)

/** Receives the bytes of one sound as they arrive. */
export interface Player {
  push (bytes: Uint8Array<ArrayBuffer>): void
  end (whole: Blob): void
  close (): void
}

export function playInto (audio: HTMLAudioElement, type: string): Player {
  return canStream(type) ? streamed(audio, type) : whole(audio)
}

function whole (audio: HTMLAudioElement): Player {
  let url = ''
  return {
    push () {},
    end (blob) {
      url = URL.createObjectURL(blob)
      audio.src = url
      void start(audio)
    },
    close () { release(audio, url) }
  }
}

/** If the browser requires a click first, the user starts the sound with the controls. */
const start = (audio: HTMLAudioElement): Promise<void> => audio.play().catch(() => {})

function release (audio: HTMLAudioElement, url: string): void {
  audio.removeAttribute('src')
  audio.load()
  if (url !== '') URL.revokeObjectURL(url)
}

function streamed (audio: HTMLAudioElement, type: string): Player {
  const source = new MediaSource()
  const url = URL.createObjectURL(source)
  const queue: Uint8Array<ArrayBuffer>[] = []
  let buffer: SourceBuffer | null = null
  let ended = false
  const go = (): void => {
    if (buffer === null || buffer.updating || source.readyState !== 'open') return
    const next = queue[0]
    if (next === undefined) {
      if (ended) source.endOfStream()
      return
    }
    try {
      buffer.appendBuffer(next)
      queue.shift()
    } catch (error) {
      if (!(error instanceof DOMException) || error.name !== 'QuotaExceededError') throw error
      // The buffer is full: remove played sound. If too little has been played, `timeupdate` tries again.
      if (audio.currentTime > BEHIND_S) buffer.remove(0, audio.currentTime - BEHIND_S)
    }
  }
  source.addEventListener('sourceopen', () => {
    buffer = source.addSourceBuffer(type)
    buffer.addEventListener('updateend', go)
    go()
  }, { once: true })
  audio.addEventListener('timeupdate', go)
  audio.src = url
  void start(audio)
  return {
    push (bytes) {
      queue.push(bytes)
      go()
    },
    end () {
      ended = true
      go()
    },
    close () {
      audio.removeEventListener('timeupdate', go)
      release(audio, url)
    }
  }
}
