// The start form shows the fields of what is chosen.
export function switchKinds() {
  const form = document.querySelector("[data-start]");
  if (form === null) return;
  const choose = () => {
    const chosen = new FormData(form).get("flow");
    for (const field of form.querySelectorAll("[data-for]")) {
      field.hidden = field.dataset.for !== chosen;
      for (const input of field.querySelectorAll("input")) input.disabled = field.hidden;
    }
  };
  form.addEventListener("change", choose);
  choose();
}
