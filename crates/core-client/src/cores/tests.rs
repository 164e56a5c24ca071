use super::*;

fn cores(urls: &[&str]) -> Arc<Cores> {
    let parse = |url: &&str| Url::parse((*url).to_owned(), None).unwrap();
    Cores::new(urls.iter().map(parse).collect(), None)
}

fn place(number: usize, address: &str) -> Place {
    (number, Some(address.parse().unwrap()))
}

/// Returns the names of the cores of these calls, which are in flight at the same time.
fn chosen(cores: &Cores, calls: usize) -> Vec<String> {
    let choose = |_| {
        let core = cores.choose().0;
        (core.name.clone(), Arc::clone(&core.in_flight))
    };
    let (mut names, _in_flight): (Vec<_>, Vec<_>) = (0..calls).map(choose).unzip();
    names.sort();
    names
}

fn set_up(cores: &Cores) {
    cores.by_address.read().iter().for_each(|(_, core)| core.set_up());
}

#[tokio::test]
async fn a_call_goes_to_the_core_with_the_fewest_in_flight_and_equal_ones_take_turns() {
    let cores = cores(&["http://core.example:1"]);
    cores.lead_to(vec![place(0, "127.0.0.1:1"), place(0, "127.0.0.2:1")]);
    assert_eq!(chosen(&cores, 1), ["http://core.example:1/"], "no core has answered yet");
    set_up(&cores);
    assert_eq!(chosen(&cores, 4), ["127.0.0.1:1", "127.0.0.1:1", "127.0.0.2:1", "127.0.0.2:1"]);
    let one_by_one = [chosen(&cores, 1), chosen(&cores, 1)];
    assert_ne!(one_by_one[0], one_by_one[1], "they take turns");

    let hung = Arc::clone(&cores.by_address.read()[0].1);
    let _in_flight = [Arc::clone(&hung.in_flight), Arc::clone(&hung.in_flight)];
    assert_eq!(chosen(&cores, 2), ["127.0.0.2:1", "127.0.0.2:1"]);
}

#[tokio::test]
async fn a_lost_core_gets_no_calls_and_its_siblings_do() {
    let cores = cores(&["http://127.0.0.1:1", "http://127.0.0.2:1"]);
    cores.lead_to(vec![place(0, "127.0.0.1:1"), place(1, "127.0.0.2:1")]);
    set_up(&cores);
    let lost = Arc::clone(&cores.by_address.read()[0].1);
    cores.lose(&lost);
    assert_eq!(chosen(&cores, 2), ["127.0.0.2:1", "127.0.0.2:1"]);
    lost.set_up();
    assert_eq!(chosen(&cores, 2), ["127.0.0.1:1", "127.0.0.2:1"]);
}

#[tokio::test]
async fn new_addresses_of_a_name_are_added_and_old_ones_are_removed() {
    let cores = cores(&["http://core.example:1"]);
    cores.lead_to(vec![place(0, "127.0.0.1:1")]);
    assert!(cores.by_address.read().is_empty(), "one address needs no choice");
    cores.lead_to(vec![place(0, "127.0.0.1:1"), place(0, "127.0.0.2:1")]);
    set_up(&cores);
    cores.lead_to(vec![place(0, "127.0.0.2:1"), place(0, "127.0.0.3:1")]);
    assert_eq!(chosen(&cores, 1), ["127.0.0.2:1"], "the new one has not answered yet");
    set_up(&cores);
    assert_eq!(chosen(&cores, 2), ["127.0.0.2:1", "127.0.0.3:1"]);
}
